// Shortcuts, as data: the listener and the list that the page shows are made of the same lines. Each has a modifier or is Escape, so that
// none is hit by typing or by speech input.

import { dialog, h } from "./dom.js";

const apple = /Mac|iPhone|iPad/.test(navigator.platform);
const main = apple ? "⌘" : "Ctrl";

const always = [
  ["Enter", "send"],
  ["Shift Enter", "new line"],
  ["↑", "edit the last message (in an empty field)"],
];

/** `actions`: stop, newChat, focus, sidebar, settings, models. */
export function listen(actions) {
  const lines = [
    { keys: "Esc", words: "stop the answer", act: actions.stop },
    { keys: `${main} Shift O`, words: "new chat", act: actions.newChat },
    { keys: `${main} Shift M`, words: "models", act: actions.models },
    { keys: `${main} Shift L`, words: "list of chats", act: actions.sidebar },
    { keys: `${main} ,`, words: "settings", act: actions.settings },
    { keys: `${main} J`, words: "to the message field", act: actions.focus },
    { keys: `${main} /`, words: "this list", act: () => show(lines) },
  ];
  document.addEventListener("keydown", (event) => {
    // An open dialog has Escape for itself.
    if (document.querySelector("dialog[open]")) return;
    const line = lines.find(({ keys }) => matches(keys, event));
    if (!line) return;
    event.preventDefault();
    line.act();
  });
  return () => show(lines);
}

function matches(keys, event) {
  const parts = keys.split(" ");
  const last = parts.at(-1) === "Esc" ? "escape" : parts.at(-1).toLowerCase();
  const modifier = apple ? event.metaKey : event.ctrlKey;
  return event.key.toLowerCase() === last && modifier === parts.includes(main) && event.shiftKey === parts.includes("Shift") && !event.altKey;
}

function show(lines) {
  const all = [...always, ...lines.map(({ keys, words }) => [keys, words])];
  const row = ([keys, words]) => [h("dt", {}, keys.split(" ").map((key) => h("kbd", {}, key))), h("dd", {}, words)];
  dialog("Keyboard", () => h("dl", { class: "keys" }, all.flatMap(row)));
}
