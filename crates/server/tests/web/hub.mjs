// A hub on this machine with one repository, for fetching a model through the page: a listing, and files that come as slowly as a test
// wants. What a hub and a network can break is tested where the hub's client is (crates/hub/tests).

import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";

import { pause } from "./stand.mjs";

const commit = "a".repeat(40);
const block = 64 << 10;

export class Hub {
  /** Serves the files of a folder as `me/little`. `wait` is awaited before every block of the weights. */
  constructor(folder) {
    this.files = new Map(readdirSync(folder).map((name) => [name, readFileSync(join(folder, name))]));
    this.wait = () => pause(0);
    /** First bytes of the requests for the weights. */
    this.starts = [];
    this.server = createServer((request, response) => this.#answer(request, response).catch(() => response.destroy()));
  }

  async start() {
    await new Promise((resolve) => this.server.listen(0, "127.0.0.1", resolve));
    this.url = `http://127.0.0.1:${this.server.address().port}`;
  }

  async stop() {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  async #answer(request, response) {
    const { pathname } = new URL(request.url, "http://hub");
    if (pathname.startsWith("/api/models/me/little/revision/")) {
      const siblings = [...this.files].map(([name, bytes]) => ({ rfilename: name, size: bytes.length, ...hash(name, bytes) }));
      return response.end(JSON.stringify({ sha: commit, siblings }));
    }
    const name = pathname.split(`/me/little/resolve/${commit}/`)[1];
    const bytes = this.files.get(name);
    if (!bytes) return response.writeHead(404).end();
    const start = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? "")?.[1] ?? 0);
    const head = { "Content-Length": bytes.length - start };
    if (start) head["Content-Range"] = `bytes ${start}-${bytes.length - 1}/${bytes.length}`;
    response.writeHead(start ? 206 : 200, head);
    const weights = name.endsWith(".safetensors");
    if (weights) this.starts.push(start);
    for (let at = start; at < bytes.length && !response.destroyed; at += block) {
      if (weights) await this.wait();
      response.write(bytes.subarray(at, at + block));
    }
    response.end();
  }
}

function hash(name, bytes) {
  if (name.endsWith(".safetensors")) return { lfs: { sha256: createHash("sha256").update(bytes).digest("hex"), size: bytes.length } };
  return { blobId: createHash("sha1").update(`blob ${bytes.length}\0`).update(bytes).digest("hex") };
}
