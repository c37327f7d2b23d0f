// The list of chats, and where it stands: beside the page on wide windows, over it on narrow ones.

import { button, byId, h } from "./dom.js";

const narrow = matchMedia("(max-width: 56rem)");

export class Sidebar {
  /** `actions`: open(id), remove(id), rename(id, title). */
  constructor(actions) {
    this.actions = actions;
    this.list = byId("chats");
    byId("open-sidebar").addEventListener("click", () => this.toggle(true));
    byId("close-sidebar").addEventListener("click", () => this.toggle(false));
    byId("veil").addEventListener("click", () => this.toggle(false));
    narrow.addEventListener("change", () => this.toggle(!narrow.matches, false));
    this.toggle(!narrow.matches, false);
  }

  toggle(open = !this.isOpen, focus = true) {
    this.isOpen = open;
    byId("shell").classList.toggle("with-sidebar", open);
    byId("sidebar").inert = !open;
    byId("veil").hidden = !(open && narrow.matches);
    byId("open-sidebar").hidden = open && !narrow.matches;
    byId("open-sidebar").setAttribute("aria-expanded", String(open));
    if (focus) byId(open ? "close-sidebar" : "open-sidebar").focus();
  }

  /** Out of the way after a choice, where it covers the page. */
  leave() {
    if (narrow.matches) this.toggle(false, false);
  }

  draw(chats, current) {
    this.list.replaceChildren(...chats.map((chat) => this.#row(chat, chat.id === current)));
    if (chats.length === 0) this.list.append(h("li", { class: "hint none" }, "No chats yet"));
  }

  #row(chat, current) {
    const { actions } = this;
    const open = h("button", { type: "button", class: "chat", "aria-current": current && "true", dir: "auto", onclick: () => (this.leave(), actions.open(chat.id)) }, chat.title);
    const row = h(
      "li",
      {},
      open,
      button("edit", `Rename ${chat.title}`, () => rename(row, chat, actions)),
      button("trash", `Delete ${chat.title}`, () => actions.remove(chat.id)),
    );
    return row;
  }
}

function rename(row, chat, actions) {
  const field = h("input", { type: "text", class: "rename", "aria-label": "Title of the chat", maxlength: "80" });
  field.value = chat.title;
  let over = false;
  const end = (title) => {
    if (over) return;
    over = true;
    actions.rename(chat.id, title?.trim() || chat.title);
  };
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.isComposing) end(field.value);
    if (event.key === "Escape") {
      event.stopPropagation();
      end();
    }
  });
  field.addEventListener("blur", () => end(field.value));
  row.replaceChildren(field);
  field.select();
}
