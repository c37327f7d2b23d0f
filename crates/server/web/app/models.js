// The models of the server: the one in use, the others, and fetching one that is not there yet.

import * as api from "./api.js";
import { announce, button, byId, dialog, h, toast } from "./dom.js";
import { bytes } from "./stats.js";

const words = { loaded: "Ready", ready: "On disk", absent: "Not fetched", pulling: "Being fetched", loading: "Loading" };

// A server that runs one model names the command that starts it with another; such a one is there, and does not answer.
const answers = (model) => ["loaded", "loading"].includes(model.state) || (model.state === "ready" && !model.command);

export class Models {
  /** `chosen()` is called when another model is to answer, `drawn()` after every change of what is known. */
  constructor(settings, { chosen, drawn }) {
    this.settings = settings;
    this.chosen = chosen;
    this.drawn = drawn;
    this.list = [];
    this.pulls = new Map();
    byId("open-models").addEventListener("click", () => this.open());
  }

  /** The id that requests name; empty while the server could not be asked. */
  get current() {
    const known = this.list.find((model) => model.id === this.settings.model && answers(model));
    return (known ?? this.list.find((model) => model.state === "loaded") ?? this.list.find(answers))?.id ?? "";
  }

  /** Whether the model that is to answer has to be loaded first. */
  get loads() {
    return ["ready", "loading"].includes(this.list.find((model) => model.id === this.current)?.state);
  }

  /** What is being fetched, in words. */
  get fetching() {
    return [...this.pulls.values()].map(({ id, percent }) => `Fetching ${id}, ${percent} %`).join("; ");
  }

  /** Asks the server. Rejects with the reason. */
  async refresh() {
    try {
      this.list = (await api.models()).models;
    } finally {
      this.draw();
    }
  }

  draw() {
    const current = this.list.find((model) => model.id === this.current);
    const pull = [...this.pulls.values()][0];
    byId("model-name").textContent = pull ? `${pull.id} ${pull.percent} %` : (current?.name ?? current?.id ?? "no model");
    byId("model-dot").dataset.state = pull ? "pulling" : (current?.state ?? "absent");
    byId("open-models").setAttribute("aria-label", `Model: ${byId("model-name").textContent}`);
    this.rows?.replaceChildren(...this.list.map((model) => this.#row(model)));
    this.drawn();
  }

  async open() {
    this.rows = h("ul", { class: "models" });
    const note = h("p", { class: "hint", role: "status" }, "Asking the server…");
    dialog("Models", () => h("div", {}, this.rows, note), { onclose: () => (this.rows = null) });
    this.draw();
    try {
      await this.refresh();
      note.textContent = this.list.length ? "" : "The server has no model.";
    } catch (error) {
      note.textContent = error.message;
    }
  }

  #row(model) {
    const pull = this.pulls.get(model.id);
    const using = model.id === this.current;
    const size = bytes(model.bytes ?? model.total);
    const actions = [];
    if (pull) actions.push(button("", "Stop", () => pull.stop.abort(), { quiet: false }));
    else if (model.state === "absent") actions.push(button("", "Fetch", () => this.#pull(model), { quiet: false, kind: "primary" }));
    else if (model.state === "pulling") actions.push(button("", "Watch", () => this.#pull(model), { quiet: false }));
    else if (model.command) actions.push(h("code", {}, model.command));
    else if (!using) actions.push(button("", "Use", () => this.#use(model), { quiet: false }));
    else actions.push(h("span", { class: "using" }, "In use"));
    const start = model.command && "the server runs it when it is started with";
    const about = (pull ? [pull.status] : [words[model.state], size, model.note, start]).filter(Boolean).join(" · ");
    return h(
      "li",
      { "data-state": pull ? "pulling" : model.state },
      h("div", {}, h("b", {}, model.name ?? model.id), h("span", { class: "hint" }, about)),
      actions,
      pull && h("progress", { max: "100", value: String(pull.percent), "aria-label": `Fetching ${model.id}` }),
    );
  }

  #use(model) {
    this.settings.model = model.id;
    this.draw();
    this.chosen();
    announce(`${model.name ?? model.id} answers from now on`);
  }

  async #pull(model) {
    const pull = { id: model.id, status: "Starting", percent: 0, stop: new AbortController() };
    this.pulls.set(model.id, pull);
    this.draw();
    try {
      for await (const { status, completed, total } of api.pull(model.id, pull.stop.signal)) {
        if (total > 0) pull.percent = Math.floor((100 * (completed ?? 0)) / total);
        pull.status = total > 0 ? `${status}, ${bytes(completed) || "0 B"} of ${bytes(total)}` : status;
        this.draw();
      }
      toast(`${model.name ?? model.id} is there.`);
    } catch (error) {
      if (error.name === "AbortError") toast("Stopped. What has been fetched is kept.");
      else toast(error.message, { stays: true });
    }
    this.pulls.delete(model.id);
    await this.refresh().catch(() => {});
  }
}
