// The page: one chat shown, at most one answer being written, and the parts that show them.
//
// Reading order: turn.js (an answer), transcript.js (how it looks), api.js (the server), history.js (what is kept).

import { announce, byId, toast } from "./dom.js";
import { Composer } from "./composer.js";
import { History, newChat, titleOf } from "./history.js";
import { listen } from "./keyboard.js";
import { Models } from "./models.js";
import { askForKey, loadSettings, openSettings, saveSettings } from "./settings.js";
import { Sidebar } from "./sidebar.js";
import { Transcript, textOf } from "./transcript.js";
import { answer, newAnswer } from "./turn.js";

const history = await History.open();
const settings = loadSettings();
const scroller = byId("scroll");
let chat = newChat();
let running = null;
let pinned = true;
let unreachable = "Asking the server what it has";
const undecided = new Map();
// Deleted chats: an answer that was being written does not bring its chat back.
const gone = new Set();
// Chats with an answer that is being written, or is whole and on its way to the disk.
const unstored = new Set();

// --- The parts ---

const transcript = new Transcript({
  edit: (message, text) => replaceFrom(message, text),
  again: (message) => replaceFrom(message),
  suggest: (text) => send(text),
  decide: (call, agreed, always) => undecided.get(call)?.(agreed, always),
});
const composer = new Composer({ send, stop, editLast });
const sidebar = new Sidebar({ open, remove, rename });
const models = new Models(settings, { chosen: () => saveSettings(settings), drawn: () => status() });
const showShortcuts = listen({
  stop,
  newChat: startNew,
  models: () => models.open(),
  sidebar: () => sidebar.toggle(),
  settings: showSettings,
  focus: () => composer.focus(),
});

byId("new-chat").addEventListener("click", startNew);
byId("open-settings").addEventListener("click", showSettings);
byId("open-shortcuts").addEventListener("click", showShortcuts);
byId("toggle-theme").addEventListener("click", () => {
  window.rawloopTheme.choice = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
});
document.addEventListener("theme", nameTheme);
nameTheme();

function nameTheme() {
  byId("toggle-theme").querySelector("span").textContent = document.documentElement.dataset.theme === "dark" ? "Light" : "Dark";
}

function showSettings() {
  openSettings(settings, { saved: () => connect(), deleteAll });
}

// --- Sending and answering ---

async function send(text) {
  if (running) return;
  chat.messages.push({ role: "user", content: text });
  if (chat.messages.length === 1 && !chat.named) chat.title = titleOf(text);
  transcript.add(chat.messages.at(-1));
  await respond();
}

/** What follows a user message, or an answer, is replaced: by another text, or by another answer to the same one. */
async function replaceFrom(message, text) {
  if (running) return;
  let at = chat.messages.indexOf(message);
  if (at < 0) return;
  if (message.role === "assistant") at--;
  const asked = text ?? chat.messages[at].content;
  chat.messages.length = at;
  transcript.show(chat);
  composer.focus();
  await send(asked);
}

function editLast() {
  const last = chat.messages.findLast((message) => message.role === "user");
  if (last && !running) transcript.edit(last);
}

async function respond() {
  const turn = { chat, message: newAnswer(), abort: new AbortController(), timer: 0 };
  running = turn;
  unstored.add(turn.chat);
  turn.chat.messages.push(turn.message);
  transcript.add(turn.message);
  transcript.mark(turn.chat);
  composer.setBusy(true);
  toEnd();
  keep(turn.chat);
  if (!models.current) await connect();
  await answer({
    chat: turn.chat,
    message: turn.message,
    settings,
    model: models.current || "default",
    signal: turn.abort.signal,
    changed: () => changed(turn),
    ask: (call, signal) => ask(turn, call, signal),
  });
  running = null;
  clearTimeout(turn.timer);
  composer.setBusy(false);
  if (turn.chat === chat) {
    transcript.finish(turn.message);
    if (pinned) toEnd();
  }
  status();
  if (turn.message.phase !== "error") announce(textOf(turn.message) || "The answer is empty");
  await keep(turn.chat);
  if (running?.chat !== turn.chat) unstored.delete(turn.chat);
  // Which model is loaded may have changed by this request.
  if (models.loads) await models.refresh().catch(() => {});
  if (turn.message.error?.kind === "key" && (await askForKey(turn.message.error.text))) {
    await connect();
    await replaceFrom(turn.message);
  }
}

function changed(turn) {
  status();
  if (turn.chat === chat) transcript.update(turn.message, () => pinned && toEnd());
  // What has come is stored at most a second later: a crash of the browser loses no more than that.
  turn.timer ||= setTimeout(() => {
    turn.timer = 0;
    keep(turn.chat);
  }, 1000);
}

/** Resolves to the person's decision; stopping is a no. */
function ask(turn, call, signal) {
  announce(`The model asks to run ${call.name}`);
  return new Promise((resolve, reject) => {
    const stopped = () => {
      undecided.delete(call);
      call.state = "left";
      reject(new DOMException("stopped", "AbortError"));
    };
    signal.addEventListener("abort", stopped, { once: true });
    undecided.set(call, (agreed, always) => {
      undecided.delete(call);
      signal.removeEventListener("abort", stopped);
      if (agreed && always && !turn.chat.allowed.includes(call.name)) turn.chat.allowed.push(call.name);
      composer.focus();
      resolve(agreed);
    });
  });
}

function stop() {
  running?.abort.abort();
}

const phases = {
  waiting: "Reading the prompt",
  thinking: "Thinking",
  writing: "Writing",
  asking: "Waiting for you: the model asks to run a tool",
  done: "Ready",
  stopped: "Stopped",
  error: "That did not work",
};

/** The line below the message field: what is being written, here or in another chat, or how the last answer ended. */
function status() {
  const phase = (running?.message ?? chat.messages.findLast((message) => message.role === "assistant"))?.phase ?? "done";
  let words = phase === "waiting" && models.loads ? "Loading the model" : phases[phase];
  if (!running && models.fetching) words = models.fetching;
  if (running && running.chat !== chat) words += `, in “${running.chat.title}”`;
  if (!running && !models.current) words = unreachable || words;
  if (byId("status").textContent !== words) byId("status").textContent = words;
}

// --- Chats ---

async function keep(kept) {
  if (gone.has(kept.id)) return;
  kept.updated = Date.now();
  if (kept === chat) address();
  kept.model = models.current;
  try {
    await history.put(kept);
  } catch (error) {
    toast(error.message, { stays: true });
  }
  await drawChats();
}

async function drawChats() {
  const chats = await history.list().catch(() => []);
  sidebar.draw(chats, chat.id);
  byId("title").textContent = chat.title;
  document.title = chat.messages.length ? `${chat.title} · rawloop` : "rawloop";
}

function show(next) {
  chat = next;
  pinned = true;
  transcript.show(chat);
  status();
  address();
  toEnd();
  drawChats();
}

// A reload comes back to the same chat.
function address() {
  const hash = chat.messages.length ? `#${chat.id}` : "";
  if (location.hash !== hash) window.history.replaceState(null, "", hash || location.pathname + location.search);
}

function startNew() {
  show(newChat());
  sidebar.leave();
  composer.focus();
}

async function open(id) {
  // The chat that is being answered is newer in memory than on disk.
  const found = running?.chat.id === id ? running.chat : await history.get(id).catch(() => undefined);
  if (!found) return toast("That chat is not here any more.");
  show(found);
  composer.focus();
}

async function rename(id, title) {
  const renamed = chat.id === id ? chat : running?.chat.id === id ? running.chat : await history.get(id);
  if (!renamed) return;
  Object.assign(renamed, { title, named: true });
  await history.put(renamed).catch((error) => toast(error.message, { stays: true }));
  await drawChats();
}

async function remove(id) {
  const removed = running?.chat.id === id ? running.chat : await history.get(id).catch(() => undefined);
  gone.add(id);
  if (running?.chat.id === id) stop();
  await history.remove(id);
  if (chat.id === id) startNew();
  else await drawChats();
  if (!removed) return;
  const undo = async () => {
    gone.delete(id);
    await history.put(removed);
    await open(id);
  };
  toast(`“${removed.title}” is deleted.`, { action: undo, label: "Undo" });
}

async function deleteAll() {
  stop();
  const all = await Promise.all((await history.list()).map(({ id }) => history.get(id)));
  for (const { id } of all) {
    gone.add(id);
    await history.remove(id);
  }
  startNew();
  const undo = async () => {
    for (const each of all) {
      gone.delete(each.id);
      await history.put(each);
    }
    await drawChats();
  };
  if (all.length) toast(all.length === 1 ? "1 chat is deleted." : `${all.length} chats are deleted.`, { action: undo, label: "Undo" });
}

// --- Scrolling: the newest text stays in view until the reader scrolls up ---

function toEnd() {
  scroller.scrollTop = scroller.scrollHeight;
}

scroller.addEventListener("scroll", () => {
  pinned = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 48;
  byId("jump").hidden = pinned;
});
byId("jump").addEventListener("click", () => {
  toEnd();
  composer.focus();
});

// --- Start ---

/** Asks what the server has. A key is asked for once; other failures are said in words. */
async function connect() {
  try {
    await models.refresh();
    unreachable = "";
  } catch (error) {
    if (error.kind === "key" && (await askForKey(error.message))) return connect();
    unreachable = error.message;
  }
  status();
}

addEventListener("pagehide", () => history.leave([...unstored].filter(({ id }) => !gone.has(id))));

history.onchange = async (id, settled) => {
  const found = id === chat.id && settled && !running && (await history.get(id).catch(() => undefined));
  if (found) show(found);
  else await drawChats();
};

if (!history.lasting) toast("This browser keeps nothing for this page: chats end with the tab.");
const wanted = location.hash.slice(1) && (await history.get(location.hash.slice(1)).catch(() => undefined));
show(wanted || newChat());
composer.focus();
await connect();
