// Chromium and the page in it. Every page of a test is watched: a request to another origin, an error in the console or a breach of the
// content policy fails the test.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Stand } from "./stand.mjs";

// The packages are in a folder of their own (scripts/check-web.sh), not beside the tests.
const folder = process.env.RAWLOOP_WEB_PACKAGES ?? new URL("../../../../target/web", import.meta.url).pathname;
export const packages = createRequire(join(folder, "package.json"));
const { chromium } = packages("playwright-core");

const flags = "--disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update --disable-sync".split(" ");

/** One browser and one stand for a file of tests. */
export class Place {
  async start() {
    this.home = mkdtempSync(join(tmpdir(), "rawloop-web-"));
    this.stand = new Stand();
    await this.stand.start();
    this.browser = await chromium.launch({
      executablePath: process.env.RAWLOOP_CHROMIUM ?? "/usr/bin/chromium",
      chromiumSandbox: false,
      args: flags,
      env: { ...process.env, HOME: this.home },
    });
    return this;
  }

  async stop() {
    await this.browser.close();
    await this.stand.stop();
    rmSync(this.home, { recursive: true, force: true });
  }

  /**
   * Runs `body` with a page of a fresh profile: the stand's, or the one at `address`. `quiet: false` is for tests in which the console has
   * something to say.
   */
  async page(body, { quiet = true, wait = true, before, address = this.stand.url, ...options } = {}) {
    this.stand.reset();
    const context = await this.browser.newContext({ viewport: { width: 1100, height: 760 }, ...options });
    const foreign = [];
    const said = [];
    context.on("request", (request) => {
      if (!request.url().startsWith(address) && !/^(data|blob):/.test(request.url())) foreign.push(request.url());
    });
    const page = await context.newPage();
    // No step has a limit of time: the page is as fast as the machine.
    page.setDefaultTimeout(0);
    page.on("pageerror", (error) => said.push(String(error)));
    page.on("console", (message) => {
      // The browser notes every status of 400 and more itself.
      const note = /^Failed to load resource/.test(message.text());
      if (["error", "warning"].includes(message.type()) && !note) said.push(message.text());
    });
    try {
      await before?.({ page, context, stand: this.stand });
      await page.goto(address);
      if (wait) await page.getByRole("status").first().waitFor({ state: "attached" });
      if (wait) await page.locator("#status", { hasText: "Ready" }).waitFor();
      await body({ page, context, stand: this.stand, chat: new Chat(page) });
      assert.deepEqual(foreign, [], "requests left the origin");
      if (quiet) assert.deepEqual(said, [], "the console has errors");
    } catch (error) {
      await snapshot(page, "failure").catch(() => {});
      throw error;
    } finally {
      await context.close();
    }
  }
}

/** What a person does on the page. */
export class Chat {
  constructor(page) {
    this.page = page;
    this.field = page.getByLabel("Message", { exact: true });
    this.answers = page.locator("article.answer");
    this.users = page.locator("article.user");
    this.status = page.locator("#status");
  }

  get last() {
    return this.answers.last();
  }

  async send(text) {
    await this.field.fill(text);
    await this.field.press("Enter");
  }

  /** Sends and waits for the end of the answer. */
  async ask(text) {
    await this.send(text);
    await this.ended();
  }

  async ended(phase = "done") {
    await this.page.locator(`article.answer.last[data-phase="${phase}"]`).waitFor();
  }
}

/** A picture for people, where RAWLOOP_WEB_PICTURES names a folder. */
export async function snapshot(page, name) {
  const pictures = process.env.RAWLOOP_WEB_PICTURES;
  if (!pictures) return;
  mkdirSync(pictures, { recursive: true });
  await page.screenshot({ path: join(pictures, `${name}.png`) });
}
