// The figures of an answer in words. Only what the server said or the page saw; nothing is shown that nobody measured.

const one = (value) => value.toLocaleString("en", { maximumFractionDigits: 1 });
const whole = (value) => Math.round(value).toLocaleString("en");

export function bytes(count) {
  if (!(count > 0)) return "";
  const units = ["B", "kB", "MB", "GB", "TB"];
  const power = Math.min(Math.floor(Math.log10(count) / 3), 4);
  return `${one(count / 1000 ** power)} ${units[power]}`;
}

export function seconds(milliseconds) {
  return milliseconds < 10_000 ? `${(milliseconds / 1000).toFixed(2)} s` : `${Math.round(milliseconds / 1000)} s`;
}

/** `[short, long]` pairs: what the line shows, and what it means. */
export function figures({ firstMs, wholeMs, usage, rawloop: told }) {
  const rawloop = told ?? {};
  const found = [];
  const tokens = rawloop.tokens ?? usage?.completion_tokens;
  // Without the server's own rate the page's clock has to do, for answers that took long enough to be timed by it.
  const writing = wholeMs - firstMs;
  const rate = rawloop.decode_tokens_per_second ?? (tokens > 1 && writing > 100 ? ((tokens - 1) * 1000) / writing : 0);
  if (rate > 0) found.push([`${rate >= 100 ? whole(rate) : one(rate)} tok/s`, "tokens a second while writing"]);
  if (firstMs >= 0) found.push([`first token ${seconds(firstMs)}`, "from sending to the first token"]);
  if (tokens > 0) found.push([`${whole(tokens)} ${tokens === 1 ? "token" : "tokens"}`, "tokens written, thoughts included"]);
  const prompt = rawloop.prompt_tokens ?? usage?.prompt_tokens;
  const reused = rawloop.reused_tokens ?? usage?.prompt_tokens_details?.cached_tokens;
  if (prompt > 0 && reused >= 0) found.push([`${whole(reused)} of ${whole(prompt)} reused`, "tokens of the prompt that were still in the KV cache"]);
  else if (prompt > 0) found.push([`prompt ${whole(prompt)}`, "tokens of the prompt"]);
  if (rawloop.drafted > 0) found.push([`drafts ${whole((100 * rawloop.accepted) / rawloop.drafted)} % taken`, `of ${whole(rawloop.drafted)} drafted tokens; ${one(rawloop.tokens_per_verify ?? 1)} tokens a step`]);
  const memory = rawloop.memory_bytes ?? rawloop.memory;
  if (memory > 0) found.push([bytes(memory), "memory of the server"]);
  return found;
}
