// Settings: what they are, how they are kept, and the dialog. Null means the server's own value.

import { button, dialog, h } from "./dom.js";
import { key } from "./api.js";
import { tools } from "./tools.js";

const name = "rawloop.settings";
const defaults = { system: "", temperature: null, topP: null, maxTokens: null, seed: null, thinking: "default", tools: [], model: "" };

export function loadSettings() {
  let stored = {};
  try {
    stored = JSON.parse(localStorage.getItem(name) ?? "{}") ?? {};
  } catch {
    // Closed storage, or something else's text: the defaults hold.
  }
  const settings = { ...defaults };
  for (const field of Object.keys(defaults)) {
    const fits = defaults[field] === null ? typeof stored[field] === "number" : typeof stored[field] === typeof defaults[field];
    if (fits && Array.isArray(stored[field]) === Array.isArray(defaults[field])) settings[field] = stored[field];
  }
  return settings;
}

export function saveSettings(settings) {
  try {
    localStorage.setItem(name, JSON.stringify(settings));
  } catch {
    // They hold until the page is closed.
  }
}

const numbers = [
  { field: "temperature", label: "Temperature", hint: "0 always takes the likeliest token; up to 2", least: 0, most: 2, step: "0.1" },
  { field: "topP", label: "Top-p", hint: "share of the likeliest tokens to draw from, above 0 up to 1", least: 0.01, most: 1, step: "0.01" },
  { field: "maxTokens", label: "Longest answer", hint: "in tokens", least: 1, most: 1_000_000, step: "1", whole: true },
  { field: "seed", label: "Seed", hint: "the same number gives the same answer again", least: 0, most: 2 ** 53 - 1, step: "1", whole: true },
];

/** Opens the dialog; `saved()` is called after the settings changed. */
export function openSettings(settings, { saved, deleteAll }) {
  dialog("Settings", (close) => {
    const system = h("textarea", { id: "set-system", rows: "4", placeholder: "None" });
    system.value = settings.system;
    const fields = numbers.map((number) => ({ ...number, ...numberField(number, settings[number.field]) }));
    const thinking = choice("set-thinking", { default: "As the model prefers", on: "On", off: "Off" }, settings.thinking);
    const theme = choice("set-theme", { system: "As the system", light: "Light", dark: "Dark" }, window.rawloopTheme.choice);
    const boxes = Object.entries(tools).map(([id, tool]) => {
      const box = h("input", { type: "checkbox", value: id });
      box.checked = settings.tools.includes(id);
      return { box, row: h("label", { class: "check" }, box, h("span", {}, tool.label)) };
    });
    const secret = h("input", { id: "set-key", type: "password", autocomplete: "off", placeholder: "None" });
    secret.value = key.get();

    const submit = (event) => {
      event.preventDefault();
      const wrong = fields.filter((field) => !field.check());
      if (wrong.length) return wrong[0].input.focus();
      settings.system = system.value;
      for (const field of fields) settings[field.field] = field.value();
      settings.thinking = thinking.value;
      settings.tools = boxes.filter(({ box }) => box.checked).map(({ box }) => box.value);
      window.rawloopTheme.choice = theme.value;
      if (secret.value !== key.get()) key.set(secret.value, false);
      saveSettings(settings);
      close("saved");
      saved();
    };

    return h(
      "form",
      { class: "settings", novalidate: true, onsubmit: submit },
      row("set-system", "System prompt", system, "what the model is told before every chat"),
      h("div", { class: "grid" }, fields.map((field) => field.row)),
      h("div", { class: "grid" }, row("set-thinking", "Thinking", thinking), row("set-theme", "Theme", theme)),
      h("fieldset", {}, h("legend", {}, "Tools that the model may ask for"), h("div", { class: "checks" }, boxes.map(({ row }) => row)), h("p", { class: "hint" }, "They run in this page, after you agree.")),
      row("set-key", "API key", secret, "kept until this tab closes"),
      h(
        "div",
        { class: "dialog-actions" },
        button("trash", "Delete all chats", () => (close(), deleteAll()), { quiet: false, kind: "left" }),
        button("", "Cancel", () => close(), { quiet: false }),
        h("button", { type: "submit", class: "button primary" }, "Save"),
      ),
    );
  });
}

function row(id, label, control, hint) {
  if (hint) control.setAttribute("aria-describedby", `${id}-hint`);
  return h("div", { class: "row" }, h("label", { for: id }, label), control, hint && h("p", { class: "hint", id: `${id}-hint` }, hint));
}

function choice(id, options, chosen) {
  const select = h("select", { id }, Object.entries(options).map(([value, text]) => h("option", { value }, text)));
  select.value = chosen;
  return select;
}

function numberField({ field, label, hint, least, most, step, whole }, current) {
  const id = `set-${field}`;
  const input = h("input", { id, type: "text", inputmode: whole ? "numeric" : "decimal", placeholder: "Default", "data-step": step });
  input.value = current ?? "";
  const element = row(id, label, input, hint);
  const words = element.querySelector(".hint");
  const value = () => (input.value.trim() === "" ? null : Number(input.value.trim().replace(",", ".")));
  const check = () => {
    const number = value();
    const good = number === null || (number >= least && number <= most && (!whole || Number.isInteger(number)));
    input.setAttribute("aria-invalid", String(!good));
    words.textContent = good ? hint : `${whole ? "A whole number" : "A number"} from ${least} to ${most}, or nothing`;
    words.classList.toggle("wrong", !good);
    return good;
  };
  input.addEventListener("change", check);
  return { input, row: element, value, check };
}

/** Asks for the key; resolves to whether one was given. */
export function askForKey(reason) {
  return new Promise((resolve) => {
    const input = h("input", { id: "ask-key", type: "password", autocomplete: "off", required: true });
    const keep = h("input", { type: "checkbox" });
    const body = (close) =>
      h(
        "form",
        {
          class: "settings",
          onsubmit: (event) => {
            event.preventDefault();
            key.set(input.value.trim(), keep.checked);
            close("given");
          },
        },
        h("p", {}, reason),
        row("ask-key", "API key", input),
        h("label", { class: "check" }, keep, h("span", {}, "Keep it on this device")),
        h("div", { class: "dialog-actions" }, button("", "Cancel", () => close(), { quiet: false }), h("button", { type: "submit", class: "button primary" }, "Continue")),
      );
    dialog("API key", body, { onclose: (value) => resolve(value === "given") });
    input.focus();
  });
}
