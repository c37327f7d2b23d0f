// The page: a model is loaded, then it is talked to. Everything that takes time is the worker's.

import { Rawloop } from "./rawloop-worker.js";

const $ = (id) => document.getElementById(id);
const rawloop = new Rawloop();
globalThis.rawloop = rawloop;

const megabytes = (bytes) => (bytes / 1e6).toFixed(bytes < 1e8 ? 1 : 0);
const steps = { fetch: "Fetching", read: "Reading", verify: "Checking", upload: "Copying to the device" };

function show(event, text, done, total) {
  if (!(event in steps)) return;
  $("progress").hidden = false;
  if (total > 0) {
    $("progress").value = done / total;
    $("state").textContent = `${steps[event]}: ${megabytes(done)} of ${megabytes(total)} MB`;
  } else {
    $("progress").removeAttribute("value");
    $("state").textContent = steps[event];
  }
}

const busy = (answering) => {
  $("send").disabled = $("new").disabled = $("text").disabled = answering;
  $("stop").hidden = !answering;
};

async function listKept() {
  const kept = await rawloop.packs().catch(() => []);
  $("kept").hidden = kept.length === 0;
  $("kept").querySelector("ul").replaceChildren(
    ...kept.map(({ name, url, bytes, here }) => {
      const item = document.createElement("li");
      const remove = document.createElement("button");
      remove.type = "button";
      remove.textContent = "Remove";
      remove.setAttribute("aria-label", `Remove ${url}`);
      remove.onclick = async () => {
        await rawloop.remove(name);
        await listKept();
      };
      const part = here < bytes ? `, ${megabytes(here)} MB of it here` : "";
      item.append(`${url} (${megabytes(bytes)} MB${part}) `, remove);
      return item;
    }),
  );
}

$("load").onsubmit = async (event) => {
  event.preventDefault();
  const button = $("load").querySelector("button");
  button.disabled = true;
  $("stop").hidden = false;
  const start = performance.now();
  try {
    const opened = await rawloop.load($("url").value, {}, show);
    const seconds = ((performance.now() - start) / 1e3).toFixed(1);
    $("device").textContent = opened.device;
    const weights = opened.synthetic ? " Its weights are random: it says nothing of sense." : "";
    const exact = opened.exact ? "" : ` This device rounds otherwise in places (${opened.inexact.map(([what]) => what).join(", ")}): other tokens than elsewhere are possible.`;
    $("state").textContent = `Ready after ${seconds} s, ${megabytes(opened.device_bytes)} MB on the device.${weights}${exact}`;
    $("talk").replaceChildren();
    busy(false);
    $("text").focus();
  } catch (error) {
    $("state").textContent = `Not loaded: ${error.message}`;
  } finally {
    $("progress").hidden = true;
    $("stop").hidden = true;
    button.disabled = false;
    await listKept();
  }
};

function add(kind, text = "") {
  const article = document.createElement("article");
  article.className = kind;
  article.textContent = text;
  $("talk").append(article);
  article.scrollIntoView({ block: "end" });
  return article;
}

$("ask").onsubmit = async (event) => {
  event.preventDefault();
  const text = $("text").value.trim();
  if (!text || $("send").disabled) return;
  $("text").value = "";
  add("question", text);
  const answer = add("answer");
  answer.setAttribute("aria-busy", "true");
  busy(true);
  try {
    const said = await rawloop.ask(text, {}, (kind, piece) => {
      if (kind === "text") answer.append(piece);
    });
    $("speed").textContent = `${said.ids.length} tokens, ${said.tokens_per_second.toFixed(1)} a second, first after ${said.first_token_ms.toFixed(0)} ms`;
  } catch (error) {
    add("failed", error.message);
  } finally {
    answer.removeAttribute("aria-busy");
    busy(false);
    $("text").focus();
  }
};

$("text").onkeydown = (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    $("ask").requestSubmit();
  }
};
$("stop").onclick = () => rawloop.stop();
document.onkeydown = ({ key }) => key === "Escape" && rawloop.stop();
$("new").onclick = async () => {
  await rawloop.forget();
  $("talk").replaceChildren();
  $("speed").textContent = "";
};
listKept();
