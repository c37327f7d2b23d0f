// The conversation as articles: one view per message, changed in place while an answer grows.

import { button, byId, copy, h, icon } from "./dom.js";
import { MarkdownView } from "./markdown.js";
import { figures } from "./stats.js";
import { tools } from "./tools.js";

const final = ["done", "stopped", "error"];

export class Transcript {
  /** `actions`: edit(message, text), again(message), suggest(text), decide(call, agreed, always). */
  constructor(actions) {
    this.actions = actions;
    this.element = byId("transcript");
    this.views = new Map();
    this.due = null;
    this.changed = new Set();
    this.earliest = 0;
  }

  /** Shows a chat from the beginning. */
  show(chat) {
    this.due = null;
    this.changed.clear();
    for (const view of this.views.values()) view.forget?.();
    this.views.clear();
    this.element.replaceChildren();
    if (chat.messages.length === 0) this.element.append(welcome(this.actions));
    for (const message of chat.messages) this.add(message);
    this.mark(chat);
  }

  add(message) {
    this.element.querySelector(".welcome")?.remove();
    const view = message.role === "user" ? new UserView(message, this.actions) : new AnswerView(message, this.actions);
    this.views.set(message, view);
    this.element.append(view.element);
  }

  /** Only the last answer offers to be written again. */
  mark(chat) {
    for (const [message, view] of this.views) view.element.classList.toggle("last", message === chat.messages.at(-1));
  }

  /**
   * Draws the message with a frame to come, however often it changes until then. Drawing takes at most a fifth of the time: a long list
   * that grows is laid out anew as a whole (50 ms for 20,000 characters), so it is drawn a few times a second.
   */
  update(message, drawn) {
    this.changed.add(message);
    if (this.due) return;
    const due = (this.due = {});
    const draw = (now) => {
      if (this.due !== due) return;
      this.due = null;
      for (const changed of this.changed) this.views.get(changed)?.update();
      this.changed.clear();
      drawn?.();
      this.earliest = performance.now() + 4 * (performance.now() - now);
    };
    const wait = this.earliest - performance.now();
    if (wait > 8) setTimeout(() => requestAnimationFrame(draw), wait);
    else requestAnimationFrame(draw);
  }

  /** Draws the message now. */
  finish(message) {
    this.changed.delete(message);
    this.views.get(message)?.update();
  }

  edit(message) {
    this.views.get(message)?.edit?.();
  }
}

function welcome({ suggest }) {
  const ideas = ["Explain how a KV cache works", "Write a short poem about rain", "Plan three easy dinners"];
  return h(
    "div",
    { class: "welcome" },
    icon("loop", "large"),
    h("h2", {}, "What is on your mind?"),
    h("p", {}, "The model runs on the machine that serves this page. Chats are kept in this browser only."),
    h("div", { class: "ideas" }, ideas.map((idea) => h("button", { type: "button", class: "idea", onclick: () => suggest(idea) }, idea))),
  );
}

class UserView {
  constructor(message, actions) {
    this.message = message;
    this.actions = actions;
    this.body = h("div", { class: "bubble", dir: "auto" }, message.content);
    const control = button("copy", "Copy the message", () => copy(message.content, control));
    this.editButton = button("edit", "Edit and send again", () => this.edit());
    this.tools = h("div", { class: "actions" }, control, this.editButton);
    this.element = h("article", { class: "user" }, h("h2", { class: "sr" }, "You"), this.body, this.tools);
  }

  edit() {
    if (this.form) return;
    const field = h("textarea", { "aria-label": "Edit the message", dir: "auto", rows: "1" });
    field.value = this.message.content;
    const close = () => {
      this.form.replaceWith(this.body);
      this.form = null;
      this.tools.hidden = false;
      this.editButton.focus();
    };
    const send = () => field.value.trim() && this.actions.edit(this.message, field.value);
    field.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        event.stopPropagation();
        close();
      } else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        send();
      }
    });
    this.form = h(
      "form",
      { class: "edit", onsubmit: (event) => (event.preventDefault(), send()) },
      field,
      h("p", { class: "hint" }, "What follows this message will be replaced."),
      h("div", { class: "edit-actions" }, button("", "Cancel", close, { quiet: false }), h("button", { type: "submit", class: "button primary" }, "Send")),
    );
    this.body.replaceWith(this.form);
    this.tools.hidden = true;
    field.focus();
  }
}

class AnswerView {
  constructor(message, actions) {
    this.message = message;
    this.actions = actions;
    this.steps = [];
    this.wait = h("p", { class: "wait" }, h("span", { class: "pulse", "aria-hidden": "true" }), h("span", {}, "Reading the prompt"));
    this.parts = h("div", { class: "parts" });
    this.note = h("div", { class: "note" });
    this.stats = h("ul", { class: "stats", "aria-label": "Figures of this answer" });
    const control = button("copy", "Copy the answer", () => copy(textOf(message), control));
    const again = button("again", "Answer again", () => actions.again(message), { kind: "again" });
    this.tools = h("div", { class: "actions" }, control, again, this.stats);
    this.element = h("article", { class: "answer" }, h("h2", { class: "sr" }, "Answer"), this.parts, this.wait, this.note, this.tools);
    this.update();
  }

  update() {
    const { message } = this;
    const ended = final.includes(message.phase);
    this.element.dataset.phase = message.phase;
    this.element.setAttribute("aria-busy", String(!ended));
    message.steps.forEach((step, index) => {
      this.steps[index] ??= this.#newStep(step);
      this.steps[index].update(!ended && index === message.steps.length - 1 ? message.phase : "done");
    });
    const last = message.steps.at(-1);
    this.wait.hidden = message.phase !== "waiting";
    this.tools.hidden = !ended;
    if (!ended || this.closed) return;
    this.closed = true;
    this.note.replaceChildren(...this.#notes(last));
    if (message.stats) this.stats.replaceChildren(...figures(message.stats).map(([short, long]) => h("li", { title: long }, short)));
  }

  forget() {
    for (const step of this.steps) step.forget();
  }

  #newStep(step) {
    const view = new StepView(step, this.actions);
    this.parts.append(view.element);
    return view;
  }

  #notes(last) {
    const { message, actions } = this;
    if (message.phase === "error") return [failure(message, actions)];
    if (message.phase === "stopped") return [h("p", { class: "hint" }, "Stopped. What came is kept.")];
    if (last?.finish === "length") return [h("p", { class: "hint" }, "The answer reached its longest length.")];
    if (!textOf(message) && !last?.calls.length) return [h("p", { class: "hint" }, "The model said nothing.")];
    return [];
  }
}

class StepView {
  constructor(step, actions) {
    this.step = step;
    this.actions = actions;
    this.calls = [];
    this.summary = h("span", {});
    this.thoughtBody = h("div", { class: "thought-body prose" });
    this.thoughtText = new MarkdownView(this.thoughtBody);
    this.thought = h("details", { class: "thought", hidden: true }, h("summary", {}, icon("thought", "small"), this.summary), this.thoughtBody);
    // A closed thought is not laid out: most are never read.
    this.thought.addEventListener("toggle", () => this.thought.open && this.thoughtText.update(this.step.reasoning));
    this.body = h("div", { class: "text prose" });
    this.text = new MarkdownView(this.body);
    this.element = h("div", { class: "step" }, this.thought, this.body);
  }

  forget() {
    this.text.forget();
    this.thoughtText.forget();
  }

  update(phase) {
    const { step } = this;
    if (step.reasoning) {
      this.thought.hidden = false;
      this.thought.classList.toggle("busy", phase === "thinking");
      this.summary.textContent = phase === "thinking" ? "Thinking…" : step.seconds >= 1 ? `Thought for ${Math.round(step.seconds)} s` : "Thought";
      if (this.thought.open) this.thoughtText.update(step.reasoning);
    }
    this.text.update(step.content);
    this.body.classList.toggle("growing", phase === "writing" && step.calls.length === 0);
    step.calls.forEach((call, index) => {
      if (!this.calls[index]) {
        this.calls[index] = new CallView(call, this.actions);
        this.element.append(this.calls[index].element);
      }
      this.calls[index].update();
    });
  }
}

const states = { new: "is being asked for", asking: "wants to run", ran: "ran", declined: "was not allowed", left: "was left unanswered" };

class CallView {
  constructor(call, actions) {
    this.call = call;
    this.actions = actions;
    this.title = h("span", { class: "call-title" });
    this.given = h("pre", { tabindex: "0", role: "region", "aria-label": "Arguments" });
    this.result = h("pre", { tabindex: "0", role: "region", "aria-label": "Result" });
    this.resultPart = h("div", { hidden: true }, h("p", { class: "call-label" }, "Result"), this.result);
    this.always = h("input", { type: "checkbox" });
    const decide = (agreed) => () => this.actions.decide(this.call, agreed, this.always.checked);
    this.question = h(
      "div",
      { class: "question", hidden: true },
      button("", "Run", decide(true), { quiet: false, kind: "primary" }),
      button("", "Don’t run", decide(false), { quiet: false }),
      h("label", {}, this.always, "Don’t ask again in this chat"),
    );
    this.details = h("details", { class: "call-details" }, h("summary", {}, icon("tool", "small"), this.title), h("p", { class: "call-label" }, "Arguments"), this.given, this.resultPart);
    this.element = h("section", { class: "call", "aria-label": "Tool call" }, this.details, this.question);
  }

  update() {
    const { call } = this;
    if (this.state !== call.state) {
      this.state = call.state;
      this.element.dataset.state = call.state;
      this.question.hidden = call.state !== "asking";
      this.details.open = call.state === "asking" || this.details.open;
    }
    const label = (Object.hasOwn(tools, call.name) && tools[call.name].label) || call.name || "A tool";
    this.title.replaceChildren(h("b", {}, label), ` ${states[call.state]}`);
    this.given.textContent = pretty(call.arguments);
    this.resultPart.hidden = call.result === undefined;
    this.result.textContent = call.result ?? "";
  }
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function failure(message, actions) {
  const { text, retryAfter, kind } = message.error;
  const retry = button("again", "Try again", () => actions.again(message), { quiet: false });
  const words = h("p", {}, text);
  if (kind === "busy" && retryAfter > 0) countDown(retry, retryAfter);
  return h("div", { class: "failure", role: "alert" }, icon("warn"), words, retry);
}

function countDown(control, from) {
  const label = control.lastChild;
  const until = performance.now() + from * 1000;
  control.disabled = true;
  const tick = () => {
    const left = Math.ceil((until - performance.now()) / 1000);
    label.textContent = left > 0 ? `Try again in ${left} s` : "Try again";
    if (left <= 0) control.disabled = false;
    else if (left > 0) setTimeout(tick, 250);
  };
  tick();
}

/** What was answered, without thoughts and calls. */
export const textOf = (message) => message.steps.map((step) => step.content).filter(Boolean).join("\n\n");
