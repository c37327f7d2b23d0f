// One turn: the request, the stream folded into the assistant's message, tool calls and what follows them. No elements here.
//
// Phases of a message: waiting (the prompt is being read), thinking, writing, asking (a tool call waits for the person), then done, stopped
// or error. `changed` is called after every change; it must be cheap, since it is called for every token.

import { ApiError, complete } from "./api.js";
import { definitions, run } from "./tools.js";

const mostRounds = 8;

export const newAnswer = () => ({ role: "assistant", steps: [], phase: "waiting", error: null, stats: null });

/** Answers the last user message of `chat` in `message`, its last one. `ask(call)` resolves to whether the person agrees. Never rejects. */
export async function answer({ chat, message, settings, model, signal, changed, ask }) {
  const phase = (value) => {
    message.phase = value;
    changed();
  };
  try {
    for (let round = 0; round < mostRounds; round++) {
      const body = requestFor(chat, settings, model);
      const step = { reasoning: "", seconds: 0, content: "", calls: [], finish: null };
      message.steps.push(step);
      phase("waiting");
      await oneStep({ body, message, step, signal, phase });
      if (step.calls.length === 0) break;
      await runCalls({ chat, step, signal, phase, changed, ask });
    }
    phase("done");
  } catch (error) {
    if (error.name === "AbortError" || signal.aborted) {
      phase("stopped");
      return;
    }
    const known = error instanceof ApiError;
    message.error = {
      kind: known ? error.kind : "failed",
      text: known ? error.message : `The answer could not be understood: ${error.message}`,
      retryAfter: known ? error.retryAfter : 0,
      status: known ? error.status : 0,
    };
    phase("error");
  }
}

async function oneStep({ body, message, step, signal, phase }) {
  const started = performance.now();
  let firstMs = -1;
  let thinkingFrom = 0;
  const stats = { firstMs: -1, wholeMs: 0, usage: null, rawloop: null };
  const thoughtIsOver = () => {
    if (thinkingFrom) step.seconds = (performance.now() - thinkingFrom) / 1000;
    thinkingFrom = 0;
  };
  try {
    for await (const chunk of complete(body, signal)) {
      const { delta = {}, finish_reason: finish } = chunk.choices?.[0] ?? {};
      const some = delta.content || delta.reasoning_content || delta.tool_calls;
      if (some && firstMs < 0) firstMs = performance.now() - started;
      if (delta.reasoning_content) {
        thinkingFrom ||= performance.now();
        step.reasoning += delta.reasoning_content;
        phase("thinking");
      }
      if (delta.content) {
        thoughtIsOver();
        step.content += delta.content;
        phase("writing");
      }
      for (const part of delta.tool_calls ?? []) {
        thoughtIsOver();
        foldCall(step.calls, part);
        phase("writing");
      }
      if (finish) {
        step.finish = finish;
        stats.wholeMs = performance.now() - started;
      }
      if (chunk.usage) stats.usage = chunk.usage;
      if (chunk.rawloop) stats.rawloop = chunk.rawloop;
    }
  } finally {
    thoughtIsOver();
    stats.firstMs = firstMs;
    stats.wholeMs ||= performance.now() - started;
    if (firstMs >= 0) message.stats = stats;
  }
}

function foldCall(calls, { index = 0, id, function: part = {} }) {
  // An index far beyond the end would be a mistake of the server; the call goes to the end then.
  const at = Math.min(index, calls.length);
  calls[at] ??= { id: "", name: "", arguments: "", state: "new", result: undefined };
  const call = calls[at];
  if (id) call.id = id;
  if (part.name) call.name += part.name;
  if (part.arguments) call.arguments += part.arguments;
}

async function runCalls({ chat, step, signal, phase, changed, ask }) {
  for (const [index, call] of step.calls.entries()) {
    call.id ||= `call-${index}`;
    let agreed = chat.allowed.includes(call.name);
    if (!agreed) {
      call.state = "asking";
      phase("asking");
      agreed = await ask(call, signal);
    }
    call.result = agreed ? run(call.name, call.arguments) : "The person did not allow this call.";
    call.state = agreed ? "ran" : "declined";
    changed();
  }
}

/** The request: the system prompt, what was said, and the settings that differ from the server's own. */
export function requestFor(chat, settings, model) {
  const messages = [];
  if (settings.system.trim()) messages.push({ role: "system", content: settings.system });
  const lastUser = chat.messages.findLastIndex((message) => message.role === "user");
  for (const [index, message] of chat.messages.entries()) {
    if (message.role === "user") messages.push({ role: "user", content: message.content });
    else for (const step of message.steps) messages.push(...spoken(step, index > lastUser));
  }
  const body = { model, messages };
  if (settings.temperature !== null) body.temperature = settings.temperature;
  if (settings.topP !== null) body.top_p = settings.topP;
  if (settings.maxTokens !== null) body.max_completion_tokens = settings.maxTokens;
  if (settings.seed !== null) body.seed = settings.seed;
  if (settings.thinking !== "default") body.chat_template_kwargs = { enable_thinking: settings.thinking === "on" };
  const offered = definitions(settings.tools);
  if (offered.length) body.tools = offered;
  return body;
}

// A step as messages. Calls without a result (the page closed, or it was stopped) are left out, since every call needs its answer.
// Thoughts belong to the turn that they were thought in: they go back only while it lasts.
function spoken(step, thisTurn) {
  const calls = step.calls.filter((call) => call.result !== undefined);
  if (!step.content && calls.length === 0) return [];
  const message = { role: "assistant", content: step.content };
  if (thisTurn && step.reasoning) message.reasoning_content = step.reasoning;
  if (calls.length) {
    message.tool_calls = calls.map(({ id, name, arguments: text }) => ({ id, type: "function", function: { name, arguments: text } }));
  }
  return [message, ...calls.map((call) => ({ role: "tool", tool_call_id: call.id, content: call.result }))];
}
