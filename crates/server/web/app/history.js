// Chats on this device, in IndexedDB. Where the browser offers none (private windows of some), they last until the page is closed.
//
// A chat is {id, title, named, created, updated, model, allowed, messages}. A message is {role: "user", content} or
// {role: "assistant", steps, phase, error, stats}; a step is one answer of the model: {reasoning, seconds, content, calls}.

const name = "rawloop";
const store = "chats";
const left = "rawloop.left";
const final = ["done", "stopped", "error"];

const done = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

export class History {
  static async open() {
    try {
      const opening = indexedDB.open(name, 1);
      opening.onupgradeneeded = () => opening.result.createObjectStore(store, { keyPath: "id" });
      const history = new History(await done(opening));
      await history.#takeLeft();
      return history;
    } catch {
      return new History(null);
    }
  }

  constructor(database) {
    this.database = database;
    this.memory = new Map();
    if (!database) return;
    // Another tab with a newer page may want the database.
    database.onversionchange = () => database.close();
    this.channel = new BroadcastChannel(name);
    this.channel.onmessage = ({ data }) => this.onchange?.(data.id, data.settled);
  }

  get lasting() {
    return this.database !== null;
  }

  /** All chats, the newest first, without their messages. */
  async list() {
    const chats = this.database ? await done(this.#store("readonly").getAll()) : [...this.memory.values()];
    return chats.map(({ id, title, updated }) => ({ id, title, updated })).sort((a, b) => b.updated - a.updated);
  }

  async get(id) {
    const chat = this.database ? await done(this.#store("readonly").get(id)) : structuredClone(this.memory.get(id));
    return chat && settle(chat);
  }

  /** Rejects with a sentence where the disk or the browser's share of it is full; the chat on the page is not touched. */
  async put(chat) {
    if (!this.database) return void this.memory.set(chat.id, structuredClone(chat));
    try {
      await this.#write((chats) => chats.put(chat));
      // Other tabs show the same list, and the same chat once its answer is complete.
      this.channel.postMessage({ id: chat.id, settled: chat.messages.every(isFinal) });
    } catch (error) {
      const full = error?.name === "QuotaExceededError";
      throw new Error(full ? "This browser's storage is full: the chat is not kept. Delete older chats to make room." : "This chat could not be stored.");
    }
  }

  async remove(id) {
    if (!this.database) return void this.memory.delete(id);
    await this.#write((chats) => chats.delete(id));
    this.channel.postMessage({ id, settled: false });
  }

  /** Stores chats while the page is being closed: the database has no time to answer then, local storage needs none. */
  leave(chats) {
    if (chats.length === 0) return;
    try {
      localStorage.setItem(left, JSON.stringify(chats));
    } catch {
      // Too long for it: what was stored within the last second is there.
    }
  }

  async #takeLeft() {
    try {
      // An older page left one chat, which is no list.
      const chats = [JSON.parse(localStorage.getItem(left)) ?? []].flat();
      localStorage.removeItem(left);
      for (const chat of chats) await this.put(chat);
    } catch {
      // Closed storage: nothing was left in it.
    }
  }

  #store(mode) {
    return this.database.transaction(store, mode).objectStore(store);
  }

  // A full disk is reported when the transaction ends, not when the request does.
  #write(change) {
    return new Promise((resolve, reject) => {
      const transaction = this.database.transaction(store, "readwrite");
      transaction.oncomplete = resolve;
      transaction.onabort = transaction.onerror = () => reject(transaction.error);
      change(transaction.objectStore(store));
    });
  }
}

const isFinal = (message) => message.role === "user" || final.includes(message.phase);

// What was under way when the page closed is not under way any more.
function settle(chat) {
  for (const message of chat.messages) {
    if (isFinal(message)) continue;
    message.phase = "stopped";
    for (const step of message.steps) {
      for (const call of step.calls) if (call.result === undefined) call.state = "left";
    }
  }
  return chat;
}

export const newChat = () => ({
  // Not crypto.randomUUID: it is missing where the page is served over plain http to another machine.
  id: `${Date.now().toString(36)}-${crypto.getRandomValues(new Uint32Array(2)).join("-")}`,
  title: "New chat",
  named: false,
  created: Date.now(),
  updated: Date.now(),
  model: "",
  allowed: [],
  messages: [],
});

/** The first line of the first message, shortened at a word. */
export function titleOf(text) {
  const line = text.trim().split("\n", 1)[0].replace(/\s+/g, " ");
  if (line.length <= 48) return line || "New chat";
  return `${line.slice(0, 48).replace(/\s+\S*$/, "")}…`;
}
