// A static server with byte ranges, which can be told to misbehave: the page's own origin, and nothing else.

import { createReadStream, statSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";

const types = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".wasm": "application/wasm" };

export class Stand {
  constructor(folder) {
    this.folder = folder;
    /// Ranges asked for, as `[path, first byte]`.
    this.asked = [];
    /// `break`: the connection ends after so many bytes of an answer; `whole`: ranges are ignored; `tag`: the file's tag.
    this.fault = {};
  }

  async start() {
    this.server = createServer((request, response) => this.#answer(request, response));
    await new Promise((resolve) => this.server.listen(0, "127.0.0.1", resolve));
    this.url = `http://127.0.0.1:${this.server.address().port}`;
  }

  stop() {
    this.server.closeAllConnections();
    return new Promise((resolve) => this.server.close(resolve));
  }

  #answer(request, response) {
    const path = normalize(decodeURIComponent(new URL(request.url, this.url).pathname));
    const file = join(this.folder, path === "/" ? "index.html" : path);
    let size;
    try {
      size = statSync(file).size;
    } catch {
      response.writeHead(404).end();
      return;
    }
    // Only packs meet faults: the page itself always comes.
    const fault = path.endsWith(".rlp") ? this.fault : {};
    const tag = `"${fault.tag ?? "one"}"`;
    const headers = { "Content-Type": types[extname(file)] ?? "application/octet-stream", ETag: tag };
    const range = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? "");
    const same = !request.headers["if-range"] || request.headers["if-range"] === tag;
    if (!range || fault.whole || !same) {
      response.writeHead(200, { ...headers, "Content-Length": size });
      this.#send(createReadStream(file), response, fault);
      return;
    }
    const first = Number(range[1]);
    this.asked.push([path, first]);
    if (first >= size) {
      response.writeHead(416, { "Content-Range": `bytes */${size}` }).end();
      return;
    }
    const last = Math.min(range[2] ? Number(range[2]) : size - 1, size - 1);
    response.writeHead(206, { ...headers, "Content-Length": last - first + 1, "Content-Range": `bytes ${first}-${last}/${size}` });
    this.#send(createReadStream(file, { start: first, end: last }), response, fault);
  }

  #send(stream, response, fault) {
    let left = fault.break ?? Infinity;
    stream.on("data", (piece) => {
      const part = piece.subarray(0, left);
      left -= part.length;
      // What was written arrives before the connection ends.
      response.write(part, () => left === 0 && response.destroy());
      if (left === 0) stream.destroy();
    });
    stream.on("end", () => response.end());
  }
}
