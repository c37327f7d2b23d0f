// A server between the browser and `rawloop serve`: files and all other paths come from the real one (RAWLOOP_WEB_SERVER holds its address),
// while answers of the model are told by a test, token by token, since no model says a script tag or loses its connection on demand.
// Without RAWLOOP_WEB_SERVER the files come from the folder, with the same content policy.

import { createServer, request as ask } from "node:http";
import { readFile } from "node:fs/promises";
import { extname, join, normalize } from "node:path";

const folder = new URL("../../web/", import.meta.url).pathname;
const types = { ".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".txt": "text/plain" };
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; manifest-src 'self'; base-uri 'none'; " +
  "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types dompurify";

export class Stand {
  constructor() {
    this.upstream = process.env.RAWLOOP_WEB_SERVER ? new URL(process.env.RAWLOOP_WEB_SERVER) : null;
    this.server = createServer((request, response) => this.#handle(request, response).catch((error) => response.destroy(error)));
    this.reset();
  }

  /** Nothing scripted, nothing seen. */
  reset() {
    this.answers = [];
    this.routes = new Map([["GET /v1/models", json({ object: "list", data: [{ id: "tiny", object: "model" }] })]]);
    this.routes.set("GET /api/models", json({ error: { message: "no catalog" } }, 404));
    this.bodies = [];
    this.paths = [];
  }

  async start() {
    await new Promise((resolve) => this.server.listen(0, "127.0.0.1", resolve));
    this.url = `http://127.0.0.1:${this.server.address().port}/`;
    return this.url;
  }

  async stop() {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  /** What the next requests for an answer get, in this order. */
  says(...answers) {
    this.answers.push(...answers);
  }

  async #handle(request, response) {
    const { pathname } = new URL(request.url, "http://stand");
    this.paths.push(pathname);
    if (request.method === "POST" && pathname === "/v1/chat/completions" && this.answers.length) {
      const body = JSON.parse(await read(request));
      this.bodies.push(body);
      return this.answers.shift()(response, { body, request });
    }
    const route = this.routes.get(`${request.method} ${pathname}`);
    if (route) {
      const body = request.method === "POST" ? JSON.parse(await read(request)) : undefined;
      return route(response, { request, body });
    }
    if (this.upstream) return this.#forward(request, response);
    return file(pathname, response);
  }

  async #forward(request, response) {
    const body = await read(request);
    // The server answers its own page only: here that is the page of the stand.
    const headers = { ...request.headers, host: this.upstream.host };
    if (headers.origin) headers.origin = this.upstream.origin;
    const out = ask(new URL(request.url, this.upstream), { method: request.method, headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    response.on("close", () => out.destroy());
    out.on("error", (error) => response.destroy(error));
    out.end(body);
  }
}

async function read(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  return Buffer.concat(parts).toString();
}

async function file(pathname, response) {
  const path = normalize(join(folder, pathname === "/" ? "index.html" : pathname));
  try {
    if (!path.startsWith(folder)) throw new Error("outside");
    const data = await readFile(path);
    response.writeHead(200, { "Content-Type": `${types[extname(path)]}; charset=utf-8`, "Content-Security-Policy": policy, "Cache-Control": "no-cache" });
    response.end(data);
  } catch {
    json({ error: { message: "no such page" } }, 404)(response);
  }
}

export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** A plain answer. */
export function json(value, status = 200, headers = {}) {
  return (response) => {
    response.writeHead(status, { "Content-Type": "application/json", ...headers });
    response.end(JSON.stringify(value));
  };
}

/** An error in OpenAI's shape. */
export const error = (status, message, headers) => json({ error: { message, type: "error", code: null } }, status, headers);

const event = (value) => `data: ${JSON.stringify(value)}\n\n`;
const chunk = (delta, finish = null) => event({ id: "a", object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason: finish }] });

/** A streamed answer. Each part is text, or a delta, or a number of milliseconds to wait, or a promise to wait for. */
export function stream(parts, { finish = "stop", cut = false, fails, rawloop, usage = { prompt_tokens: 20, completion_tokens: 12 } } = {}) {
  return async (response) => {
    response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
    response.write(": alive\n\n");
    for (const part of parts) {
      if (response.destroyed) return;
      if (typeof part === "number") await pause(part);
      else if (typeof part === "string") response.write(chunk({ content: part }));
      else if (part instanceof Promise) await part;
      else response.write(chunk(part));
    }
    if (cut) {
      // What was written is to arrive: a connection without a byte of an answer is tried again by the browser itself.
      await pause(100);
      return void response.destroy();
    }
    if (fails) return void response.end(event({ error: { message: fails, type: "server_error" } }));
    response.write(chunk({}, finish));
    response.write(event({ choices: [], usage, rawloop }));
    response.end("data: [DONE]\n\n");
  };
}

/** A call of a tool, in two pieces as servers send it. */
export function call(name, args, id = "call_1", index = 0) {
  const text = JSON.stringify(args);
  const half = Math.floor(text.length / 2);
  return [
    { tool_calls: [{ index, id, type: "function", function: { name, arguments: text.slice(0, half) } }] },
    { tool_calls: [{ index, function: { arguments: text.slice(half) } }] },
  ];
}

/** A gate that a test opens: what waits for it goes on then. */
export function gate() {
  let open;
  const opened = new Promise((resolve) => (open = resolve));
  return { opened, open };
}
