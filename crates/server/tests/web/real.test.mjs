// The page with the model itself: nothing is told by the tests. Runs where RAWLOOP_WEB_SERVER names a server (scripts/check-web.sh starts one
// with the small model of the program).

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Place, snapshot } from "./browser.mjs";

const place = new Place();
before(() => place.start());
after(() => place.stop());

const skip = process.env.RAWLOOP_WEB_SERVER ? false : "no server is named";
const real = { address: process.env.RAWLOOP_WEB_SERVER };

async function set(page, values) {
  await page.getByLabel("Settings").click();
  for (const [label, value] of Object.entries(values)) {
    const field = page.getByLabel(label, { exact: true });
    if (label === "Thinking") await field.selectOption(value);
    else await field.fill(value);
  }
  await page.getByRole("button", { name: "Save" }).click();
}

test("the model answers, and its second turn reuses the first", { skip }, () =>
  place.page(async ({ page, chat }) => {
    assert.notEqual(await page.locator("#model-name").textContent(), "no model");
    await set(page, { Temperature: "0", Thinking: "off" });
    await chat.ask("What is 20 + 31?");
    assert.match(await chat.last.locator(".text").textContent(), /51/);
    await chat.ask("What is the capital of France?");
    assert.match(await chat.last.locator(".text").textContent(), /Paris/);
    const figures = await chat.last.locator(".stats").textContent();
    assert.match(figures, /tok\/s.*first token.*tokens.*[1-9]\d* of \d+ reused/);
    await snapshot(page, "real");
  }, real));

test("thoughts of the model are folded", { skip }, () =>
  place.page(async ({ page, chat }) => {
    await set(page, { Temperature: "0", Thinking: "on" });
    await chat.ask("What is 20 + 31?");
    await chat.last.locator("summary").click();
    await chat.last.locator(".thought-body p").first().waitFor();
    assert.match(await chat.last.locator(".text").textContent(), /51/);
  }, real));

test("a short limit is said, and the same seed gives the same answer", { skip }, () =>
  place.page(async ({ page, chat }) => {
    await set(page, { "Longest answer": "3", Seed: "7", Temperature: "1", Thinking: "off" });
    await chat.ask("Tell me a story.");
    assert.match(await chat.last.textContent(), /reached its longest length/);
    const first = await chat.last.locator(".text").textContent();
    await chat.last.getByLabel("Answer again").click();
    await page.waitForFunction(() => document.querySelectorAll("article.answer").length === 1);
    await chat.ended();
    assert.equal(await chat.last.locator(".text").textContent(), first);
  }, real));

test("a request that the server refuses is explained", { skip }, () =>
  place.page(async ({ chat }) => {
    await chat.send("word ".repeat(60_000));
    await chat.ended("error");
    assert.match(await chat.last.getByRole("alert").textContent(), /token|context|large|long/i);
  }, real));
