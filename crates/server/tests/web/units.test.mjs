// Parts of the page by themselves, loaded by the browser as the page loads them.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Place } from "./browser.mjs";

const place = new Place();
before(() => place.start());
after(() => place.stop());

test("the calculator knows its rules and says what it does not understand", () =>
  place.page(async ({ page }) => {
    const values = await page.evaluate(async () => {
      const { evaluate } = await import("/app/calculator.js");
      const attempt = (text) => {
        try {
          return evaluate(text);
        } catch (error) {
          return error.message;
        }
      };
      const texts = ["1 + 2 * 3", "-2^2", "2^3^2", "2**-1", "(1+2)*-3", "0.1+0.2", "7 % 4", "1e3/4", "sqrt(16)+max(1, 2, 3)", "PI", ".5*2"];
      const wrong = ["", "1 +", "(1", "1 2", "foo(1)", "constructor", "sqrt 4", "1/0", "9^9^9", "((".repeat(300), "2;alert(1)", "-".repeat(9999) + "x"];
      return { right: texts.map(attempt), wrong: wrong.map(attempt) };
    });
    assert.deepEqual(values.right, [7, -4, 512, 0.5, -9, 0.3, 3, 250, 7, 3.14159265358979, 1]);
    assert.deepEqual(values.wrong, [
      "the expression ends too early",
      "the expression ends too early",
      "expected ) at the end",
      "2 was not expected",
      "foo is not known",
      "constructor is not known",
      "expected ( instead of 4",
      "division by zero",
      "the value is not a finite number",
      "too many brackets",
      "; was not expected",
      "x is not known",
    ]);
  }));

test("the clock takes time zones, and a wrong one is told to the model", () =>
  place.page(
    async ({ page }) => {
      const said = await page.evaluate(async () => {
        const { run } = await import("/app/tools.js");
        return [run("clock", ""), run("clock", '{"time_zone":"Asia/Tokyo"}'), run("clock", '{"time_zone":"Nowhere"}'), run("clock", "{"), run("toString", "{}")];
      });
      assert.match(said[0], /20\d\d.*\d\d:\d\d:\d\d/);
      assert.match(said[1], /GMT\+9/);
      assert.match(said[2], /^Error: /);
      assert.match(said[3], /^Error: /);
      assert.equal(said[4], "There is no tool of the name toString.");
    },
    { timezoneId: "Europe/Paris" },
  ));

test("events are read however the bytes are cut", () =>
  place.page(async ({ page }) => {
    const found = await page.evaluate(async () => {
      const { events } = await import("/app/sse.js");
      const bytes = new TextEncoder().encode(': note\r\ndata: {"a":"é🙂"}\r\n\r\nevent: x\ndata: one\ndata:two\nid: 3\n\n\ndata\n\ndata:  spaced\r\rdata: unfinished');
      const all = new Set();
      for (let size = 1; size <= bytes.length; size++) {
        const body = new ReadableStream({
          start(controller) {
            for (let at = 0; at < bytes.length; at += size) controller.enqueue(bytes.slice(at, at + size));
            controller.close();
          },
        });
        const seen = [];
        for await (const data of events(body)) seen.push(data);
        all.add(JSON.stringify(seen));
      }
      return [...all];
    });
    assert.deepEqual(found, [JSON.stringify(['{"a":"é🙂"}', "one\ntwo", " spaced"])]);
  }));

test("titles are one short line", () =>
  place.page(async ({ page }) => {
    const titles = await page.evaluate(async () => {
      const { titleOf } = await import("/app/history.js");
      return ["  one\ntwo", " \n ", "a  b\tc", "word ".repeat(20), "x".repeat(99)].map(titleOf);
    });
    assert.deepEqual(titles, ["one", "New chat", "a b c", "word word word word word word word word word…", `${"x".repeat(48)}…`]);
  }));

test("an answer that grows costs one block per update", () =>
  place.page(async ({ page }) => {
    const made = await page.evaluate(async () => {
      const { MarkdownView } = await import("/app/markdown.js");
      const element = document.createElement("div");
      const view = new MarkdownView(element);
      let added = 0;
      const watch = new MutationObserver((records) => (added += records.reduce((sum, record) => sum + record.addedNodes.length, 0)));
      watch.observe(element, { childList: true });
      let text = "";
      for (let block = 0; block < 200; block++) {
        text += `Paragraph ${block} with *some* text.\n\n`;
        view.update(text);
      }
      await Promise.resolve();
      return { added, blocks: element.querySelectorAll("p").length };
    });
    assert.equal(made.blocks, 200);
    assert.ok(made.added <= 2 * 200 * 2, `${made.added} nodes were added`);
  }));
