// The page in a headless Chromium with a software adapter: real WebAssembly, real WebGPU, the embedded model's pack.
//
// What the model says is compared with what the program says (RAWLOOP_BROWSER_EXPECTED, made by scripts/check-browser.sh).

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, before, test } from "node:test";

import { Stand } from "./stand.mjs";

const folder = process.env.RAWLOOP_BROWSER_PAGE;
const expected = JSON.parse(readFileSync(process.env.RAWLOOP_BROWSER_EXPECTED, "utf8"));
const { chromium } = createRequire(join(process.env.RAWLOOP_WEB_PACKAGES, "package.json"))("playwright-core");
const flags =
  "--disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync --disable-gpu-watchdog " +
  "--enable-unsafe-webgpu --use-webgpu-adapter=swiftshader --enable-features=Vulkan";

let stand, browser, context, home;

before(async () => {
  home = mkdtempSync(join(tmpdir(), "rawloop-browser-"));
  stand = new Stand(folder);
  await stand.start();
  browser = await chromium.launch({
    executablePath: process.env.RAWLOOP_CHROMIUM,
    chromiumSandbox: false,
    args: flags.split(" "),
    env: { ...process.env, HOME: home },
  });
});

after(async () => {
  await browser?.close();
  await stand?.stop();
  rmSync(home, { recursive: true, force: true });
});

/// A page of a fresh profile. No step has a limit of time: the adapter is as fast as the machine.
async function fresh() {
  stand.fault = {};
  stand.asked = [];
  context = await browser.newContext();
  context.setDefaultTimeout(0);
  const page = await context.newPage();
  await page.goto(stand.url);
  return page;
}

afterEach(() => context?.close());

const load = (page) => page.evaluate(() => rawloop.load("tiny.rlp", { context: 512 }));
const refused = (page) =>
  page.evaluate(() => rawloop.load("tiny.rlp", { context: 512 }).then(() => "loaded", (error) => error.message));
const kept = (page) => page.evaluate(() => rawloop.packs());

test("the model says in a browser what it says elsewhere, word for word, and remembers", async () => {
  const page = await fresh();
  const opened = await load(page);
  assert.equal(opened.exact, true, `arithmetic of ${opened.device}: ${JSON.stringify(opened.inexact)}`);
  assert.match(opened.device, /webgpu/i);
  for (const { question, text } of expected.turns) {
    const said = await page.evaluate(async (question) => {
      let streamed = "";
      const said = await rawloop.ask(question, { temperature: 0 }, (event, text) => {
        if (event === "text") streamed += text;
      });
      return { ...said, streamed };
    }, question);
    assert.equal(said.text, text);
    assert.equal(said.streamed, text, "what was streamed, put together");
    assert.equal(said.finish_reason, "stop");
    assert.ok(said.tokens_per_second > 0);
  }
});

test("a person loads, asks, stops and begins anew", async () => {
  const page = await fresh();
  await page.getByRole("button", { name: "Load" }).click();
  await page.getByText(/^Ready after/).waitFor();
  await page.getByLabel("Message").fill(expected.turns[0].question);
  await page.keyboard.press("Enter");
  await page.getByText(expected.turns[0].text).waitFor();
  await page.getByText(/tokens, .* a second/).waitFor();
  const stopped = page.evaluate(() =>
    rawloop.ask("Tell me a story.", { temperature: 0 }, (event) => event === "text" && rawloop.stop()),
  );
  assert.equal((await stopped).finish_reason, "cancelled");
  await page.getByRole("button", { name: "New chat" }).click();
  await page.locator("#talk article").first().waitFor({ state: "detached" });
  const again = await page.evaluate((question) => rawloop.ask(question, { temperature: 0 }), expected.turns[0].question);
  assert.equal(again.text, expected.turns[0].text, "an answer that was stopped leaves nothing behind");
});

test("a fetch that broke off goes on where it was, and a pack that is here is not fetched again", async () => {
  const page = await fresh();
  const bytes = statSync(join(folder, "tiny.rlp")).size;
  stand.fault = { break: 3_000_000 };
  assert.notEqual(await refused(page), "loaded");
  const [part] = await kept(page);
  assert.ok(part.here > 0 && part.here < bytes, `${part.here} of ${bytes} bytes are here`);
  stand.fault = {};
  stand.asked = [];
  await load(page);
  assert.deepEqual(stand.asked, [["/tiny.rlp", part.here]]);
  stand.asked = [];
  await page.reload();
  await load(page);
  assert.deepEqual(stand.asked, [], "nothing is asked for");
  const [whole] = await kept(page);
  assert.deepEqual([whole.here, whole.bytes, whole.checked], [bytes, bytes, true]);
});

test("another version begins anew, and a server without ranges is no obstacle", async () => {
  const page = await fresh();
  const bytes = statSync(join(folder, "tiny.rlp")).size;
  stand.fault = { break: 2_000_000 };
  assert.notEqual(await refused(page), "loaded");
  stand.fault = { tag: "two" };
  await load(page);
  const [{ name }] = await kept(page);
  await page.evaluate((name) => rawloop.remove(name), name);
  assert.deepEqual(await kept(page), []);
  stand.fault = { whole: true };
  await load(page);
  assert.equal((await kept(page))[0].here, bytes);
});

test("what is no pack is refused in words, and the page goes on", async () => {
  const page = await fresh();
  const why = await page.evaluate(() => rawloop.load("page.css").then(() => "loaded", (error) => error.message));
  assert.match(why, /pack/);
  const missing = await page.evaluate(() => rawloop.load("none.rlp").then(() => "loaded", (error) => error.message));
  assert.match(missing, /none\.rlp answers 404/);
  const early = await page.evaluate(() => rawloop.ask("Hello").then(() => "answered", (error) => error.message));
  assert.equal(early, "no model is open");
  await load(page);
});
