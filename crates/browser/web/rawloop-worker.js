// The worker as functions that give promises. `onEvent(event, text, done, total)` sees what a call tells on the way.

export class Rawloop {
  #worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
  #calls = new Map();
  #last = 0;

  constructor() {
    this.#worker.onmessage = ({ data }) => {
      const call = this.#calls.get(data.id);
      if (!call) return;
      if ("event" in data) return call.onEvent?.(data.event, data.text, data.done, data.total);
      this.#calls.delete(data.id);
      if ("error" in data) call.reject(new Error(data.error));
      else call.resolve(data.result);
    };
    this.#worker.onerror = ({ message }) => {
      for (const { reject } of this.#calls.values()) reject(new Error(message || "the worker ended"));
      this.#calls.clear();
    };
  }

  #call(message, onEvent) {
    const id = ++this.#last;
    return new Promise((resolve, reject) => {
      this.#calls.set(id, { resolve, reject, onEvent });
      this.#worker.postMessage({ ...message, id });
    });
  }

  /// Fetches a pack, or takes it from the browser's files, and opens it.
  load(url, { context = 4096 } = {}, onEvent) {
    return this.#call({ do: "load", url, context }, onEvent);
  }

  /// Answers a message of the conversation.
  ask(text, asking, onEvent) {
    return this.#call({ do: "ask", text, asking }, onEvent);
  }

  /// Ends the load or the answer under way.
  stop() {
    this.#worker.postMessage({ do: "stop" });
  }

  /// Begins a new conversation.
  forget() {
    return this.#call({ do: "forget" });
  }

  /// The packs among the browser's files.
  packs() {
    return this.#call({ do: "packs" });
  }

  /// Removes one of them.
  remove(name) {
    return this.#call({ do: "remove", name });
  }
}
