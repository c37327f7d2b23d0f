// The message field: grows with its text, sends with Enter where there is a keyboard, gives way to the stop button while an answer is written.

import { byId } from "./dom.js";

// On a touch screen Enter makes a new line and the button sends.
const touch = matchMedia("(hover: none) and (pointer: coarse)");

export class Composer {
  /** `actions`: send(text), stop(), editLast(). */
  constructor(actions) {
    this.field = byId("message");
    this.busy = false;
    this.field.setAttribute("enterkeyhint", touch.matches ? "enter" : "send");
    const send = () => {
      const text = this.field.value;
      if (this.busy || !text.trim()) return;
      this.set("");
      actions.send(text);
    };
    byId("composer").addEventListener("submit", (event) => (event.preventDefault(), send()));
    byId("stop").addEventListener("click", () => actions.stop());
    this.field.addEventListener("input", () => this.#fit());
    this.field.addEventListener("keydown", (event) => {
      // While an input method composes, Enter belongs to it (keyCode 229 in browsers that end composing first).
      if (event.isComposing || event.keyCode === 229) return;
      if (event.key === "Enter" && !event.shiftKey && !touch.matches) {
        event.preventDefault();
        send();
      } else if (event.key === "ArrowUp" && this.field.value === "") {
        event.preventDefault();
        actions.editLast();
      }
    });
    this.#fit();
  }

  set(text) {
    this.field.value = text;
    this.#fit();
  }

  focus() {
    this.field.focus();
  }

  setBusy(busy) {
    const hadFocus = [byId("stop"), byId("send")].includes(document.activeElement);
    this.busy = busy;
    byId("send").hidden = busy;
    byId("stop").hidden = !busy;
    if (hadFocus) this.focus();
  }

  #fit() {
    byId("send").disabled = !this.field.value.trim();
    this.field.style.height = "auto";
    this.field.style.height = `${this.field.scrollHeight}px`;
  }
}
