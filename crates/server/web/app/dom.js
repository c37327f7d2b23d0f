// Making elements. Text only ever enters as text: nothing in this page sets innerHTML, and the server's policy (trusted types) forbids it.

/** An element with attributes (`on...` are listeners, null and false are left out) and children (text or nodes). */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== undefined && child !== null && child !== false));
  return element;
}

/** One of the symbols at the end of index.html. */
export function icon(name, size = "") {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("class", `icon ${size}`.trim());
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(space, "use");
  use.setAttribute("href", `#i-${name}`);
  svg.append(use);
  return svg;
}

/** A button with a symbol and words; with `quiet` the words are for screen readers and the tooltip. */
export function button(symbol, words, onclick, { quiet = true, kind = "" } = {}) {
  const attributes = { type: "button", class: `${quiet ? "icon-button" : "button"} ${kind}`.trim(), onclick };
  if (quiet) Object.assign(attributes, { "aria-label": words, title: words });
  return h("button", attributes, symbol && icon(symbol, "small"), !quiet && words);
}

export const byId = (id) => document.getElementById(id);

/** Copies text and says so on the button for a moment. */
export async function copy(text, control) {
  let done = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    done = copyBySelection(text);
  }
  announce(done ? "Copied" : "The browser did not allow copying");
  const use = control.querySelector("use");
  if (!done || !use) return;
  use.setAttribute("href", "#i-check");
  setTimeout(() => use.setAttribute("href", "#i-copy"), 1500);
}

// The clipboard interface exists on localhost and https only; a page over plain http in a local network copies this way.
function copyBySelection(text) {
  const field = h("textarea", { class: "sr", readonly: true });
  field.value = text;
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  return done;
}

/** Said to screen readers once they have finished what they are saying. */
export function announce(text) {
  const live = byId("live");
  // The same words twice are said twice only if the node is new.
  live.replaceChildren(h("p", {}, text));
}

/** A notice at the edge of the window, with at most one action; it goes away by itself unless `stays`. */
export function toast(text, { action, label, stays = false } = {}) {
  const remove = () => element.remove();
  const element = h(
    "div",
    { class: "toast", role: stays ? "alert" : "status" },
    h("span", {}, text),
    action &&
      h("button", { type: "button", class: "link", onclick: () => (remove(), action()) }, label),
    button("close", "Close", remove),
  );
  byId("toasts").replaceChildren(element);
  if (!stays) setTimeout(remove, 8000);
}

/** A dialog that is made when it opens and gone when it closes. `body(close)` returns its content. */
export function dialog(title, body, { kind = "", onclose } = {}) {
  const id = `dialog-${title.toLowerCase().replace(/[^a-z]+/g, "-")}`;
  if (byId(id)) return;
  const element = h("dialog", { id, class: kind, "aria-labelledby": `${id}-title` });
  const close = (value) => element.close(value ?? "");
  element.append(
    h("div", { class: "dialog-top" }, h("h2", { id: `${id}-title` }, title), button("close", "Close", () => close())),
    body(close),
  );
  element.addEventListener("close", () => {
    element.remove();
    onclose?.(element.returnValue);
  });
  // A click beside the dialog closes it.
  element.addEventListener("mousedown", (event) => event.target === element && close());
  document.body.append(element);
  element.showModal();
}
