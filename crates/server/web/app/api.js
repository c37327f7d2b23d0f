// The server, as this page uses it. Every failure becomes an ApiError whose message is a sentence for a person.

import { events, jsonLines } from "./sse.js";

// Relative to the page, so that it also works below a path of a reverse proxy.
const base = new URL(".", document.baseURI);
const keyName = "rawloop.key";

export class ApiError extends Error {
  /** `kind`: "unreachable", "key", "busy", "refused", "failed" or "lost"; `retryAfter` in seconds. */
  constructor(kind, message, { status = 0, retryAfter = 0 } = {}) {
    super(message);
    Object.assign(this, { kind, status, retryAfter });
  }
}

/** The key for this server; kept until the tab closes, or on this device where the person asks for it. */
export const key = {
  get() {
    try {
      return sessionStorage.getItem(keyName) ?? localStorage.getItem(keyName) ?? "";
    } catch {
      return this.held ?? "";
    }
  },
  set(value, keep) {
    this.held = value;
    try {
      sessionStorage.setItem(keyName, value);
      if (keep && value) localStorage.setItem(keyName, value);
      else localStorage.removeItem(keyName);
    } catch {
      // Storage is closed to this page: it holds until the page is closed.
    }
  },
};

async function request(path, { body, signal, method = body ? "POST" : "GET" } = {}) {
  const headers = {};
  if (body) headers["Content-Type"] = "application/json";
  if (key.get()) headers.Authorization = `Bearer ${key.get()}`;
  let response;
  try {
    response = await fetch(new URL(path, base), { method, headers, body: body && JSON.stringify(body), signal, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("unreachable", "The server cannot be reached. Is it still running?");
  }
  if (response.ok) return response;
  throw await failure(response);
}

async function failure(response) {
  let said = "";
  try {
    const { error } = await response.json();
    said = typeof error === "string" ? error : (error?.message ?? "");
  } catch {
    // No JSON: the status has to do.
  }
  const { status } = response;
  const retryAfter = Math.min(Math.max(Number(response.headers.get("Retry-After")) || 0, 0), 3600);
  const details = { status, retryAfter };
  if (status === 401) return new ApiError("key", said || "The server asks for an API key.", details);
  if (status === 429 || status === 503) return new ApiError("busy", said || "The server is busy.", details);
  if (status >= 500) return new ApiError("failed", said ? `The server failed: ${said}` : `The server failed (status ${status}).`, details);
  return new ApiError("refused", said || `The server refused the request (status ${status}).`, details);
}

/** What the server offers: `[{id, name, state, bytes, completed, total, note, command}]`, and whether it has a catalog. */
export async function models() {
  const loaded = (await (await request("v1/models")).json()).data ?? [];
  const plain = loaded.map((model) => ({ id: model.id, name: model.id, state: "loaded", ...model.rawloop }));
  try {
    const catalog = (await (await request("api/models")).json()).models;
    if (Array.isArray(catalog) && catalog.length) return { models: catalog, catalog: true };
  } catch (error) {
    if (!(error instanceof ApiError) || error.kind === "key") throw error;
  }
  return { models: plain, catalog: false };
}

/** Fetches a model to the server's disk; yields `{status, completed, total}`. */
export async function* pull(model, signal) {
  const response = await request("api/pull", { body: { model }, signal });
  let last = {};
  try {
    for await (const line of jsonLines(response.body)) {
      if (line.error) throw new ApiError("failed", typeof line.error === "string" ? line.error : line.error.message);
      last = line;
      yield line;
    }
  } catch (error) {
    if (error instanceof ApiError || error.name === "AbortError") throw error;
    throw new ApiError("lost", "The connection was lost. What has been fetched is kept.");
  }
  if (last.status !== "success") throw new ApiError("lost", "The connection was lost. What has been fetched is kept.");
}

/** One answer of the model; yields the chunks of OpenAI's stream. Throws "lost" where the stream ends before the answer does. */
export async function* complete(body, signal) {
  const response = await request("v1/chat/completions", { body: { ...body, stream: true, stream_options: { include_usage: true } }, signal });
  let finished = false;
  try {
    for await (const data of events(response.body)) {
      if (data === "[DONE]") return;
      const chunk = JSON.parse(data);
      if (chunk.error) throw new ApiError("failed", chunk.error.message || "The server failed while it was answering.");
      if (chunk.choices?.[0]?.finish_reason) finished = true;
      yield chunk;
    }
  } catch (error) {
    if (error instanceof ApiError || error.name === "AbortError") throw error;
    // A finished answer is an answer, even if the figures after it are missing.
    if (!finished) throw lost();
  }
  if (!finished) throw lost();
}

const lost = () => new ApiError("lost", "The connection was lost before the answer was complete. What came is kept.");
