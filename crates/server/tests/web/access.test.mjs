// For everybody: rules of accessibility in both themes, the keyboard alone, phones, large text, reduced motion.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";

import { packages, Place, snapshot } from "./browser.mjs";
import { call, error, gate, stream } from "./stand.mjs";

const place = new Place();
before(() => place.start());
after(() => place.stop());

const axe = readFileSync(packages.resolve("axe-core/axe.min.js"), "utf8");
const rich =
  "## A heading\n\nText with [a link](https://example.org), `code` and **weight**.\n\n> A quotation.\n\n1. one\n2. two\n\n```rust\n" +
  `let line = "${"long ".repeat(40)}";\n` +
  "```\n\n| Name | Value | Remark |\n|---|--:|---|\n| alpha | 1 | " +
  "a_long_word_without_a_break_".repeat(6) +
  " |\n\nhttps://example.org/" +
  "path/".repeat(40);

/** No rule of WCAG 2.2 A and AA, or of good practice, is broken. */
async function accessible(page, what) {
  // The page's policy allows no scripts from elsewhere; the driver's own world is not bound by it.
  await page.evaluate(axe);
  const found = await page.evaluate(async () => {
    const { violations } = await window.axe.run(document, { resultTypes: ["violations"] });
    return violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html.slice(0, 160)).join(" | ")}`);
  });
  assert.deepEqual(found, [], what);
}

async function fill(page, chat, stand) {
  stand.says(
    stream([{ reasoning_content: "a *thought*" }, rich], { rawloop: { decode_tokens_per_second: 30, tokens: 40, prompt_tokens: 30, reused_tokens: 12, memory_bytes: 4e8 } }),
    error(500, "the backend stopped"),
  );
  await chat.ask("Show me everything that you can write, in one answer");
  await chat.send("And now fail");
  await chat.ended("error");
}

for (const colorScheme of ["light", "dark"]) {
  test(`no rule is broken in the ${colorScheme} theme`, () =>
    place.page(
      async ({ page, chat, stand }) => {
        assert.equal(await page.locator("html").getAttribute("data-theme"), colorScheme);
        await accessible(page, "empty");
        await snapshot(page, `empty-${colorScheme}`);
        await fill(page, chat, stand);
        await chat.answers.first().locator("summary").first().click();
        await page.locator("#scroll").evaluate((element) => element.scrollTo(0, 0));
        await accessible(page, "chat");
        await snapshot(page, `chat-${colorScheme}`);
        await page.getByLabel("Settings").click();
        await page.getByLabel("Temperature").fill("9");
        await page.getByRole("button", { name: "Save" }).click();
        await accessible(page, "settings");
        await snapshot(page, `settings-${colorScheme}`);
        await page.keyboard.press("Escape");
        await page.getByRole("button", { name: "Keyboard" }).click();
        await accessible(page, "keyboard");
        await snapshot(page, `keyboard-${colorScheme}`);
        await page.keyboard.press("Escape");
        const hold = gate();
        stand.says(stream([...call("clock", {}), hold.opened], { finish: "tool_calls" }), stream(["x", hold.opened]));
        await chat.send("time");
        await chat.last.getByText("Clock").waitFor();
        await accessible(page, "call");
        hold.open();
        await chat.last.getByText("wants to run").waitFor();
        await accessible(page, "question");
      },
      { colorScheme },
    ));
}

test("the theme follows the system, or the person, who is remembered", () =>
  place.page(
    async ({ page }) => {
      const theme = (name) => page.locator(`html[data-theme="${name}"]`).waitFor();
      await theme("light");
      await page.emulateMedia({ colorScheme: "dark" });
      await theme("dark");
      await page.getByRole("button", { name: "Light" }).click();
      await theme("light");
      await page.reload();
      await theme("light");
      const ground = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
      assert.equal(ground, "rgb(250, 249, 246)");
    },
    { colorScheme: "light" },
  ));

test("everything is done with the keyboard", () =>
  place.page(async ({ page, chat, stand }) => {
    const focus = () => page.evaluate(() => document.activeElement.getAttribute("aria-label") || document.activeElement.id || document.activeElement.textContent.trim());
    assert.equal(await focus(), "message");
    stand.says(stream(["one"]), stream(["never", new Promise(() => {})]), stream(["three"]));
    await page.keyboard.type("line 1");
    await page.keyboard.press("Shift+Enter");
    await page.keyboard.type("line 2");
    await page.keyboard.press("Enter");
    await chat.ended();
    assert.equal(stand.bodies[0].messages[0].content, "line 1\nline 2");
    assert.equal(await focus(), "message");
    await page.keyboard.type("stop me");
    await page.keyboard.press("Enter");
    await chat.last.getByText("never").waitFor();
    await page.keyboard.press("Escape");
    await chat.ended("stopped");
    // Back to the answer's buttons, with the focus always visible.
    await page.keyboard.press("Shift+Tab");
    assert.equal(await focus(), "Answer again");
    const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
    assert.equal(outline, "solid");
    await page.keyboard.press("Enter");
    await chat.last.getByText("three").waitFor();
    await chat.ended();
    await page.keyboard.press("Control+/");
    await page.getByRole("dialog", { name: "Keyboard" }).waitFor();
    await page.keyboard.press("Escape");
    assert.equal(await page.getByRole("dialog").count(), 0);
    await page.keyboard.press("Control+,");
    await page.getByRole("dialog", { name: "Settings" }).waitFor();
    await page.keyboard.press("Escape");
    await page.keyboard.press("Control+Shift+O");
    assert.equal(await chat.answers.count(), 0);
    assert.equal(await focus(), "message");
    await page.keyboard.press("Control+Shift+L");
    assert.equal(await page.locator("#sidebar").evaluate((element) => element.inert), true);
    assert.equal(await focus(), "Show chats");
    await page.keyboard.press("Enter");
    assert.equal(await focus(), "Hide chats");
    for (let step = 0; step < 40 && !/^line 1/.test(await focus()); step++) await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await chat.last.getByText("three").waitFor();
  }));

test("every stop of the tab key is visible", () =>
  place.page(async ({ page, chat, stand }) => {
    await fill(page, chat, stand);
    await page.locator(".skip").focus();
    const hidden = [];
    const seen = [];
    for (let step = 0; step < 60; step++) {
      await page.keyboard.press("Tab");
      const at = await page.evaluate(() => {
        const element = document.activeElement;
        if (element === document.body) return null;
        const box = element.getBoundingClientRect();
        const shown = box.width > 0 && box.height > 0 && Number(getComputedStyle(element.closest(".actions, .icon-button") ?? element).opacity) > 0;
        return { name: element.getAttribute("aria-label") || element.textContent.trim().slice(0, 30), shown };
      });
      if (at === null) break;
      seen.push(at.name);
      if (!at.shown) hidden.push(at.name);
    }
    assert.ok(seen.includes("Try again") && seen.includes("Code, rust") && seen.includes("Settings"), seen.join(", "));
    assert.deepEqual(hidden, []);
  }));

test("an input method that composes keeps its Enter", () =>
  place.page(async ({ page, chat, stand }) => {
    await chat.field.fill("にほん");
    await chat.field.evaluate((field) => field.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", isComposing: true, bubbles: true, cancelable: true })));
    assert.equal(stand.bodies.length, 0);
    assert.equal(await chat.field.inputValue(), "にほん");
    assert.equal(await page.locator("article").count(), 0);
  }));

const phone = { viewport: { width: 360, height: 640 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 };

/** Nothing sticks out sideways: neither the page nor a part of it, unless that part scrolls by itself. */
async function fits(page) {
  const wide = await page.evaluate(() => {
    const width = document.documentElement.clientWidth;
    const found = [];
    if (document.documentElement.scrollWidth > width) found.push(`page ${document.documentElement.scrollWidth}`);
    const scroller = document.getElementById("scroll");
    if (scroller.scrollWidth > scroller.clientWidth) found.push(`conversation ${scroller.scrollWidth}`);
    for (const element of document.querySelectorAll("header *, footer *, dialog *")) {
      const box = element.getBoundingClientRect();
      if (box.width && (box.right > width + 1 || box.left < -1)) found.push(element.outerHTML.slice(0, 80));
    }
    return found;
  });
  assert.deepEqual(wide, []);
}

test("a phone of 360 pixels shows everything without scrolling sideways", () =>
  place.page(
    async ({ page, chat, stand }) => {
      await fits(page);
      await snapshot(page, "phone-empty");
      stand.says(stream([rich]), error(500, "the backend stopped"));
      await chat.field.fill("Show me everything");
      await chat.field.press("Enter");
      assert.equal(await chat.field.inputValue(), "Show me everything\n", "Enter is a new line where the keyboard is on the screen");
      await page.getByRole("button", { name: "Send", exact: true }).tap();
      await chat.ended();
      await fits(page);
      await snapshot(page, "phone-chat");
      await chat.field.fill("fail");
      await page.getByRole("button", { name: "Send", exact: true }).tap();
      await chat.ended("error");
      await fits(page);
      await snapshot(page, "phone-error");
      await page.getByLabel("Settings").tap();
      await fits(page);
      await snapshot(page, "phone-settings");
      await page.getByRole("button", { name: "Cancel" }).tap();
      await page.getByLabel("Show chats").tap();
      await page.getByRole("button", { name: "Show me everything", exact: true }).waitFor();
      await page.waitForTimeout(250);
      await snapshot(page, "phone-chats");
      await page.locator("#veil").tap({ position: { x: 340, y: 300 } });
      assert.equal(await page.locator("#sidebar").evaluate((element) => element.inert), true);
      const small = await page.locator("header button:visible, footer button:visible").evaluateAll((all) =>
        all.map((element) => [element.getAttribute("aria-label"), element.getBoundingClientRect()]).filter(([, box]) => box.width < 36 || box.height < 36).map(([name]) => name),
      );
      assert.deepEqual(small, [], "targets are large enough for fingers");
    },
    phone,
  ));

test("a narrow window with doubled text still fits", () =>
  place.page(
    async ({ page, chat, stand }) => {
      await page.evaluate(() => (document.documentElement.style.fontSize = "200%"));
      stand.says(stream([rich]));
      await chat.ask("hi");
      await fits(page);
      await snapshot(page, "large-text");
    },
    { viewport: { width: 640, height: 800 } },
  ));

test("text from right to left stands right", () =>
  place.page(async ({ chat, stand }) => {
    stand.says(stream(["مرحبا بالعالم\n\nHello"]));
    await chat.ask("שלום");
    const directions = await chat.last.locator(".text p").evaluateAll((all) => all.map((one) => getComputedStyle(one).direction));
    assert.deepEqual(directions, ["rtl", "ltr"]);
  }));

test("nothing moves where motion is not wanted", () =>
  place.page(
    async ({ page, chat, stand }) => {
      stand.says(stream([new Promise(() => {})]));
      await chat.send("hi");
      await chat.last.locator(".pulse").waitFor();
      const moving = await page.evaluate(() => document.getAnimations().length);
      assert.equal(moving, 0);
    },
    { reducedMotion: "reduce" },
  ));
