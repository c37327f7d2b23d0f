// Runs the module, so that the page stays alive while it works. One message in, one call; events of the call on the way, and an end.
//
// In:  {id, do: "load", url, context} | {id, do: "ask", text, asking} | {id, do: "forget"} | {id, do: "packs"} | {id, do: "remove", name}
//      {do: "stop"} ends the load or the answer under way.
// Out: {id, event, text, done, total}* and then {id, result} or {id, error}.

import init, { Room, ask, cancel, forget, open } from "./rawloop.js";
import { fetchPack, noteChecked, packs, readPack, removePack } from "./store.js";

let current;
let fetching;

// What a panic said; the module cannot be used behind it.
let panic;
const tell = (event, text = "", done = 0, total = 0) => {
  if (event === "panic") panic = text;
  postMessage({ id: current, event, text, done, total });
};
globalThis.rawloopEvent = tell;

const ready = (async () => {
  if (!("Suspending" in WebAssembly)) {
    throw new Error("This browser cannot suspend WebAssembly (JSPI): use Chromium or Edge 137, or Firefox 153, or newer.");
  }
  if (!navigator.gpu) throw new Error("This browser has no WebGPU here; on Linux it may have to be switched on.");
  await init({ module_or_path: new URL("./rawloop_bg.wasm", import.meta.url) });
})();

async function load({ url, context }) {
  fetching = new AbortController();
  let pack;
  try {
    pack = await fetchPack(url, (done, total) => tell("fetch", "", done, total), fetching.signal);
  } finally {
    fetching = undefined;
  }
  const room = new Room(pack.bytes);
  await readPack(pack, (bytes) => room.push(bytes), (done, total) => tell("read", "", done, total));
  try {
    const opened = await open(room, url, JSON.stringify({ context, verify: !pack.checked }));
    if (!pack.checked) await noteChecked(pack);
    return JSON.parse(opened);
  } catch (error) {
    // What was never found right is not kept: the next attempt fetches it again.
    if (!pack.checked && /hash|damaged|sha-?256/i.test(String(error))) await removePack(pack.name);
    throw error;
  }
}

const work = {
  load,
  ask: async ({ text, asking }) => JSON.parse(await ask(text, JSON.stringify(asking ?? {}))),
  forget: async () => forget(),
  packs: async () => packs(),
  remove: async ({ name }) => removePack(name),
};

// Calls wait for each other; only stopping does not wait.
let last = ready.catch(() => {});
onmessage = ({ data }) => {
  if (data.do === "stop") {
    fetching?.abort(new Error("stopped"));
    ready.then(cancel, () => {});
    return;
  }
  last = last.then(async () => {
    current = data.id;
    try {
      await ready;
      if (panic) throw new Error(panic);
      postMessage({ id: data.id, result: await work[data.do](data) });
    } catch (error) {
      const said = panic ? `The program stopped (${panic}); reload the page.` : (error?.message ?? String(error));
      postMessage({ id: data.id, error: said });
    }
  });
};
