// Packs in the browser's own file system: fetched in pieces by range requests, gone on with where a fetch broke off.
//
// A pack is `NAME` with `NAME.json` beside it: its length, the server's tag of the version, and whether every hash was checked. The file
// grows from the front, so its length says where to go on. A server that ignores ranges sends the whole file, which is written from
// the start. Runs in a worker: only there does a file have a handle that reads and writes at once.

const PIECE = 8 << 20;

const folder = async () => (await navigator.storage.getDirectory()).getDirectoryHandle("packs", { create: true });

async function readJson(directory, name) {
  try {
    return JSON.parse(await (await (await directory.getFileHandle(name)).getFile()).text());
  } catch {
    return null;
  }
}

async function writeJson(directory, name, value) {
  const handle = await (await directory.getFileHandle(name, { create: true })).createSyncAccessHandle();
  try {
    const bytes = new TextEncoder().encode(JSON.stringify(value));
    handle.truncate(0);
    handle.write(bytes, { at: 0 });
    handle.flush();
  } finally {
    handle.close();
  }
}

const total = (response) => Number(/\/(\d+)$/.exec(response.headers.get("Content-Range") ?? "")?.[1]);

const refuse = (url, response) => {
  throw new Error(`${url} answers ${response.status} ${response.statusText}`.trim());
};

/// Fetches what is missing of `url`. `progress(done, total)` is told after each piece. Gives the pack's name.
export async function fetchPack(url, progress, signal) {
  const directory = await folder();
  const name = encodeURIComponent(new URL(url, location.href).href);
  let known = await readJson(directory, `${name}.json`);
  const handle = await (await directory.getFileHandle(name, { create: true })).createSyncAccessHandle();
  try {
    let done = known ? Math.min(handle.getSize(), known.bytes) : 0;
    while (!known || done < known.bytes) {
      const headers = { Range: `bytes=${done}-${done + PIECE - 1}` };
      if (known?.tag) headers["If-Range"] = known.tag;
      const response = await fetch(url, { headers, signal, cache: "no-store" });
      if (response.status === 416 && done > 0) {
        // The file there is shorter than what is here of it: another one.
        known = null;
        done = 0;
        continue;
      }
      if (!response.ok) refuse(url, response);
      const whole = response.status !== 206;
      const bytes = whole ? Number(response.headers.get("Content-Length")) : total(response);
      const tag = response.headers.get("ETag");
      if (!known || whole || known.tag !== tag || known.bytes !== bytes) {
        if (!whole && done > 0) {
          known = null;
          done = 0;
          continue;
        }
        if (!bytes) throw new Error(`${url} does not say how long it is`);
        done = 0;
        handle.truncate(0);
        known = { bytes, tag: tag?.startsWith("W/") ? null : tag, checked: false };
        await writeJson(directory, `${name}.json`, known);
      }
      for (const reader = response.body.getReader(); ; ) {
        const { value, done: end } = await reader.read();
        if (end) break;
        if (done + value.length > known.bytes) throw new Error(`${url} sends more than it said`);
        handle.write(value, { at: done });
        done += value.length;
        progress(done, known.bytes);
      }
      handle.flush();
      if (whole && done < known.bytes) throw new Error(`${url} broke off after ${done} of ${known.bytes} bytes`);
    }
    if (handle.getSize() > known.bytes) handle.truncate(known.bytes);
  } finally {
    handle.close();
  }
  return { name, bytes: known.bytes, checked: known.checked };
}

/// Reads a pack piece by piece into `push(bytes)`.
export async function readPack({ name, bytes }, push, progress) {
  const directory = await folder();
  const handle = await (await directory.getFileHandle(name)).createSyncAccessHandle();
  try {
    const piece = new Uint8Array(PIECE);
    for (let at = 0; at < bytes; ) {
      const count = handle.read(piece.subarray(0, Math.min(PIECE, bytes - at)), { at });
      if (count === 0) throw new Error("the stored model is shorter than it was; load it again");
      push(piece.subarray(0, count));
      at += count;
      progress(at, bytes);
    }
  } finally {
    handle.close();
  }
}

/// Notes that every hash of a pack was right, so that it is not checked at every start.
export async function noteChecked(pack) {
  const directory = await folder();
  const known = await readJson(directory, `${pack.name}.json`);
  await writeJson(directory, `${pack.name}.json`, { ...known, checked: true });
}

/// Removes a pack: it was damaged, or its space is needed.
export async function removePack(name) {
  const directory = await folder();
  for (const entry of [name, `${name}.json`]) await directory.removeEntry(entry).catch(() => {});
}

/// The packs that are here, whole or in part, with their lengths.
export async function packs() {
  const directory = await folder();
  const found = [];
  for await (const [name, handle] of directory.entries()) {
    if (name.endsWith(".json")) continue;
    const known = await readJson(directory, `${name}.json`);
    const size = (await handle.getFile()).size;
    found.push({ name, url: decodeURIComponent(name), bytes: known?.bytes ?? 0, here: size, checked: Boolean(known?.checked) });
  }
  return found;
}
