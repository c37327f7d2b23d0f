// Chats: send, stream, stop, edit, answer again, several chats, reload, tools, settings, models.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Place, snapshot } from "./browser.mjs";
import { call, error, gate, json, stream } from "./stand.mjs";

const place = new Place();
before(() => place.start());
after(() => place.stop());

const figures = {
  prompt_tokens: 140,
  reused_tokens: 96,
  prefilled_tokens: 44,
  tokens: 128,
  verify_steps: 52,
  tokens_per_verify: 2.46,
  drafted: 150,
  accepted: 93,
  prefill_ms: 210,
  decode_tokens_per_second: 31.24,
  memory_bytes: 1_234_000_000,
};

test("an answer streams as Markdown, and its figures follow", () =>
  place.page(async ({ page, chat, stand }) => {
    const half = gate();
    const code = "Some `code`:\n\n```rust\nfn main() {\n    println!(\"hi\");\n}\n```\n\n";
    stand.says(stream(["# Head", "ing\n\nA **bold** word. ", half.opened, code, "| a | b |\n|---|--:|\n| 1 | 2 |\n\n3. three\n4. four\n"], { rawloop: figures }));
    await chat.send("Hello there");
    await chat.last.getByText("bold").waitFor();
    assert.equal(await chat.status.textContent(), "Writing");
    assert.equal(await page.locator("#live").textContent(), "", "unfinished text is not read out");
    await snapshot(page, "writing");
    half.open();
    await chat.ended();
    assert.equal(await chat.last.locator("h3").textContent(), "Heading");
    assert.equal(await chat.last.locator("strong").textContent(), "bold");
    assert.equal(await chat.last.locator("pre code").textContent(), 'fn main() {\n    println!("hi");\n}');
    assert.deepEqual(await chat.last.locator("td").evaluateAll((all) => all.map((one) => getComputedStyle(one).textAlign)), ["start", "end"]);
    assert.equal(await chat.last.locator("ol").getAttribute("start"), "3");
    const shown = await chat.last.locator(".stats li").allTextContents();
    assert.deepEqual(shown, ["31.2 tok/s", shown[1], "128 tokens", "96 of 140 reused", "drafts 62 % taken", "1.2 GB"]);
    assert.match(shown[1], /^first token \d+\.\d\d s$/);
    assert.match(await page.locator("#live").textContent(), /Heading[\s\S]*println/, "the finished text is read out");
    assert.deepEqual(stand.bodies[0].messages, [{ role: "user", content: "Hello there" }]);
    assert.deepEqual(Object.keys(stand.bodies[0]).sort(), ["messages", "model", "stream", "stream_options"]);
    assert.equal(stand.bodies[0].model, "tiny");
  }));

test("text that arrives in pieces of any size is the same text", () =>
  place.page(async ({ chat, stand }) => {
    const text = "1. one\n2. two\n   - deeper **x**\n\n> quoted\n\n```js\nconst a = `b`;\n```\nend é 漢字 🙂";
    stand.says(stream([text]), stream([...text].flatMap((c, i) => (i % 9 === 8 ? [c, 1] : [c]))));
    await chat.ask("whole");
    await chat.ask("pieces");
    const html = await chat.answers.locator(".text").evaluateAll((all) => all.map((one) => one.innerHTML));
    assert.equal(html[0], html[1]);
    assert.match(html[0], /漢字 🙂/);
  }));

test("code is copied", () =>
  place.page(
    async ({ page, chat, stand }) => {
      stand.says(stream(["```sh\necho one\necho two\n```"]));
      await chat.ask("code");
      await page.getByLabel("Copy the code").click();
      assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "echo one\necho two");
      await page.getByLabel("Copy the answer").click();
      assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^```sh/);
    },
    { permissions: ["clipboard-read", "clipboard-write"] },
  ));

test("a code block that grows keeps its place and its button", () =>
  place.page(async ({ page, chat, stand }) => {
    const more = gate();
    stand.says(stream([`\`\`\`py\nprint("${"x".repeat(400)}")\n`, more.opened, "print(2)\n```"]));
    await chat.send("code");
    const pre = chat.last.locator("pre");
    await pre.waitFor();
    await pre.evaluate((element) => {
      element.scrollLeft = 120;
      element.dataset.mark = "same";
    });
    more.open();
    await chat.ended();
    assert.equal(await pre.evaluate((element) => `${element.dataset.mark} ${element.scrollLeft}`), "same 120");
    assert.match(await pre.textContent(), /print\(2\)$/);
    assert.equal(await page.getByLabel("Copy the code").count(), 1);
  }));

test("code has colours, and loses them with its text", () =>
  place.page(async ({ page, chat, stand }) => {
    const rest = gate();
    stand.says(stream(["```rust\n// note\nfn main() {\n", rest.opened, '    let s = "text"; // 7\n    let n = 7;\n}\n```\n```nonsense\nfn x\n```']));
    await chat.send("code");
    await chat.last.locator("pre").waitFor();
    rest.open();
    await chat.ended();
    const painted = () =>
      page.evaluate(() =>
        [...CSS.highlights].map(([name, ranges]) => `${name}: ${[...ranges].map((range) => range.startContainer.data.slice(range.startOffset, range.endOffset)).join(", ")}`),
      );
    assert.deepEqual(await painted(), ["code-comment: // note, // 7", 'code-string: "text"', "code-number: 7", "code-word: fn, let, let"]);
    await snapshot(page, "code");
    await page.getByRole("button", { name: "New chat" }).click();
    assert.deepEqual(await painted(), ["code-comment: ", "code-string: ", "code-number: ", "code-word: "]);
  }));

test("stopping keeps the text, ends the request and lets the next message go", () =>
  place.page(async ({ page, chat, stand }) => {
    let closed;
    const gone = new Promise((resolve) => (closed = resolve));
    stand.says((response, context) => {
      response.on("close", closed);
      return stream(["The first words", new Promise(() => {})])(response, context);
    });
    await chat.send("long");
    await chat.last.getByText("The first words").waitFor();
    await page.getByRole("button", { name: "Stop" }).click();
    await chat.ended("stopped");
    await gone;
    assert.match(await chat.last.textContent(), /The first words[\s\S]*Stopped/);
    stand.says(stream(["again"]));
    await chat.ask("next");
    assert.deepEqual(
      stand.bodies[1].messages.map(({ role, content }) => `${role}: ${content}`),
      ["user: long", "assistant: The first words", "user: next"],
    );
  }));

test("stopping while the prompt is read works too", () =>
  place.page(async ({ page, chat, stand }) => {
    stand.says(stream([new Promise(() => {})]));
    await chat.send("slow");
    await chat.last.getByText("Reading the prompt").waitFor();
    await page.keyboard.press("Escape");
    await chat.ended("stopped");
    assert.equal(await chat.status.textContent(), "Stopped");
  }));

test("an edited message replaces what followed it", () =>
  place.page(async ({ page, chat, stand }) => {
    stand.says(stream(["one"]), stream(["two"]), stream(["other"]));
    await chat.ask("first");
    await chat.ask("second");
    await chat.users.first().hover();
    await chat.users.first().getByLabel("Edit and send again").click();
    const field = page.getByLabel("Edit the message");
    assert.equal(await field.inputValue(), "first");
    await field.fill("changed");
    await field.press("Enter");
    await chat.last.getByText("other").waitFor();
    await chat.ended();
    assert.deepEqual(stand.bodies[2].messages, [{ role: "user", content: "changed" }]);
    assert.equal(await chat.users.count(), 1);
    assert.equal(await chat.answers.count(), 1);
  }));

test("an edit can be given up, and the last message is edited with the up key", () =>
  place.page(async ({ page, chat, stand }) => {
    stand.says(stream(["one"]));
    await chat.ask("first");
    await chat.field.press("ArrowUp");
    await page.getByLabel("Edit the message").fill("changed");
    await page.keyboard.press("Escape");
    assert.equal(await chat.users.textContent(), "Youfirst");
    assert.equal(stand.bodies.length, 1);
  }));

test("an answer is written again", () =>
  place.page(async ({ page, chat, stand }) => {
    stand.says(stream(["one"]), stream(["two"]), stream(["three"]));
    await chat.ask("first");
    await chat.ask("second");
    await chat.last.getByLabel("Answer again").click();
    await chat.last.getByText("three").waitFor();
    await chat.ended();
    assert.equal(await page.getByText("two").count(), 0);
    assert.deepEqual(stand.bodies[2].messages, stand.bodies[1].messages);
    assert.equal(await chat.answers.count(), 2);
  }));

test("a reload keeps the history, and several chats stand side by side", () =>
  place.page(async ({ page, chat, stand }) => {
    stand.says(stream(["**one**"], { rawloop: figures }), stream(["two"]));
    await chat.ask("About trees");
    await page.getByRole("button", { name: "New chat" }).click();
    await chat.ask("About stones");
    await page.reload();
    await chat.last.getByText("two").waitFor();
    const chats = page.getByRole("navigation").getByRole("button", { name: /^About/ });
    assert.deepEqual(await chats.allTextContents(), ["About stones", "About trees"]);
    await chats.last().click();
    await chat.last.locator("strong", { hasText: "one" }).waitFor();
    assert.equal(await page.getByRole("heading", { level: 1 }).textContent(), "About trees");
    assert.equal(await chat.last.locator(".stats li").count(), 6);
    stand.says(stream(["three"]));
    await chat.ask("more");
    assert.deepEqual(stand.bodies[2].messages.map(({ content }) => content), ["About trees", "**one**", "more"]);
  }));

test("a reload while an answer is written keeps what came", () =>
  place.page(async ({ page, chat, stand }) => {
    stand.says(stream(["Some words", new Promise(() => {})]));
    await chat.send("long");
    await chat.last.getByText("Some words").waitFor();
    await page.reload();
    await chat.ended("stopped");
    assert.match(await chat.last.textContent(), /Some words/);
  }));

test("a reload while a whole answer is being stored keeps it", () => {
  // The database is at it until the page goes, and then has stored nothing.
  const slow = () => {
    if (performance.getEntriesByType("navigation")[0].type === "reload") return;
    const put = IDBObjectStore.prototype.put;
    IDBObjectStore.prototype.put = function (chat) {
      const request = put.call(this, chat);
      const again = () => (this.get(chat.id).onsuccess = again);
      if (chat.messages.at(-1)?.phase === "done") again();
      return request;
    };
  };
  return place.page(
    async ({ page, chat, stand }) => {
      stand.says(stream(["all of it"]));
      await chat.ask("short");
      await page.reload();
      await chat.last.waitFor();
      assert.equal(await chat.last.getAttribute("data-phase"), "done");
      assert.match(await chat.last.textContent(), /all of it/);
    },
    { before: ({ page }) => page.addInitScript(slow) },
  );
});

test("an answer goes on while another chat is looked at", () =>
  place.page(async ({ page, chat, stand }) => {
    const rest = gate();
    stand.says(stream(["begin ", rest.opened, "end"]));
    await chat.send("first chat");
    await chat.last.getByText("begin").waitFor();
    await page.getByRole("button", { name: "New chat" }).click();
    assert.equal(await chat.answers.count(), 0);
    assert.equal(await chat.status.textContent(), "Writing, in “first chat”");
    rest.open();
    await chat.status.getByText("Ready").waitFor();
    await page.getByRole("navigation").getByRole("button", { name: "first chat", exact: true }).click();
    await chat.ended();
    assert.match(await chat.last.textContent(), /begin end/);
  }));

test("two tabs show the same chats", () =>
  place.page(async ({ page, context, chat, stand }) => {
    const other = await context.newPage();
    await other.goto(stand.url);
    await other.getByText("No chats yet").waitFor();
    stand.says(stream(["one"]), stream(["two"]));
    await chat.ask("shared");
    await other.getByRole("navigation").getByRole("button", { name: "shared", exact: true }).click();
    await other.getByText("one", { exact: true }).waitFor();
    await chat.ask("more");
    await other.getByText("two", { exact: true }).waitFor();
    await page.getByRole("navigation").getByText("shared").hover();
    await page.getByLabel("Delete shared").click();
    await other.getByText("No chats yet").waitFor();
  }));

test("chats are renamed, deleted, and brought back", () =>
  place.page(async ({ page, chat, stand }) => {
    stand.says(stream(["one"]));
    await chat.ask("First words");
    const list = page.getByRole("navigation");
    await list.getByText("First words").hover();
    await list.getByLabel("Rename First words").click();
    await page.getByLabel("Title of the chat").fill("Mine");
    await page.keyboard.press("Enter");
    await list.getByText("Mine", { exact: true }).hover();
    await list.getByLabel("Delete Mine").click();
    await list.getByText("No chats yet").waitFor();
    assert.equal(await chat.answers.count(), 0);
    await page.getByRole("button", { name: "Undo" }).click();
    await chat.last.getByText("one").waitFor();
    assert.equal(await page.getByRole("heading", { level: 1 }).textContent(), "Mine");
  }));

test("a chat that is deleted while it is answered stays deleted", () =>
  place.page(async ({ page, chat, stand }) => {
    stand.says(stream(["words", new Promise(() => {})]));
    await chat.send("to go");
    await chat.last.getByText("words").waitFor();
    const list = page.getByRole("navigation");
    await list.getByText("to go").hover();
    await list.getByLabel("Delete to go").click();
    await list.getByText("No chats yet").waitFor();
    await chat.status.getByText("Ready", { exact: true }).waitFor();
    await page.reload();
    await list.getByText("No chats yet").waitFor();
  }));

test("thoughts are folded, and open on demand", () =>
  place.page(async ({ page, chat, stand }) => {
    const on = gate();
    stand.says(stream([{ reasoning_content: "First I *weigh*" }, on.opened, { reasoning_content: " it." }, "The answer."]));
    await chat.send("hard");
    await chat.last.getByText("Thinking…").waitFor();
    assert.equal(await chat.status.textContent(), "Thinking");
    assert.equal(await chat.last.getByText("First I").count(), 0, "a closed thought is not laid out");
    on.open();
    await chat.ended();
    await chat.last.locator("summary", { hasText: "Thought" }).click();
    await chat.last.locator(".thought-body p").waitFor();
    assert.equal(await chat.last.locator(".thought-body").textContent(), "First I weigh it.\n");
    assert.equal(await chat.last.locator(".text").textContent(), "The answer.\n");
    stand.says(stream(["next"]));
    await chat.ask("more");
    assert.deepEqual(stand.bodies[1].messages[1], { role: "assistant", content: "The answer." }, "thoughts of earlier turns stay here");
  }));

async function allowTools(page) {
  await page.getByLabel("Settings").click();
  await page.getByLabel("Calculator").check();
  await page.getByLabel("Clock").check();
  await page.getByRole("button", { name: "Save" }).click();
}

test("a tool runs after the person agrees, and its result goes back", () =>
  place.page(async ({ page, chat, stand }) => {
    await allowTools(page);
    stand.says(
      stream([{ reasoning_content: "needs sums" }, "Let me see. ", ...call("calculator", { expression: "2*(3+4)^2" })], { finish: "tool_calls" }),
      stream(["It is 98."]),
    );
    await chat.send("sum");
    await chat.last.getByText("Calculator wants to run").waitFor();
    assert.match(await chat.last.getByRole("region", { name: "Arguments" }).textContent(), /2\*\(3\+4\)\^2/);
    await snapshot(page, "asking");
    await chat.last.getByRole("button", { name: "Run", exact: true }).click();
    await chat.last.getByText("It is 98.").waitFor();
    await chat.ended();
    assert.equal(await chat.last.locator('[aria-label="Result"]').textContent(), "98");
    const [, first, result] = stand.bodies[1].messages;
    assert.equal(first.reasoning_content, "needs sums");
    assert.deepEqual(first.tool_calls[0].function, { name: "calculator", arguments: '{"expression":"2*(3+4)^2"}' });
    assert.deepEqual(result, { role: "tool", tool_call_id: "call_1", content: "98" });
    assert.deepEqual(stand.bodies[0].tools.map((tool) => tool.function.name).sort(), ["calculator", "clock"]);
  }));

test("a refusal is told to the model, and “don’t ask again” holds for the chat", () =>
  place.page(async ({ page, chat, stand }) => {
    await allowTools(page);
    stand.says(stream(call("calculator", { expression: "1+1" }), { finish: "tool_calls" }), stream(["Then not."]));
    await chat.send("one");
    await chat.last.getByRole("button", { name: "Don’t run" }).click();
    await chat.last.getByText("Then not.").waitFor();
    await chat.ended();
    assert.equal(stand.bodies[1].messages.at(-1).content, "The person did not allow this call.");
    const both = [...call("calculator", { expression: "1/0" }), ...call("calculator", { expression: "2^10" }, "call_2", 1)];
    stand.says(stream(both, { finish: "tool_calls" }), stream(["Done."]));
    await chat.send("two");
    await chat.last.getByLabel("Don’t ask again in this chat").first().check();
    await chat.last.getByRole("button", { name: "Run", exact: true }).first().click();
    await chat.last.getByText("Done.").waitFor();
    assert.deepEqual(stand.bodies[3].messages.slice(-2).map(({ content }) => content), ["Error: division by zero", "1024"]);
  }));

test("a call of a tool that nobody offered does nothing", () =>
  place.page(async ({ chat, stand }) => {
    stand.says(stream(call("constructor", {}), { finish: "tool_calls" }), stream(["Sorry."]));
    await chat.send("odd");
    await chat.last.getByRole("button", { name: "Run", exact: true }).click();
    await chat.last.getByText("Sorry.").waitFor();
    assert.equal(stand.bodies[1].messages.at(-1).content, "There is no tool of the name constructor.");
  }));

test("stopping while a tool is asked for leaves it unanswered", () =>
  place.page(async ({ page, chat, stand }) => {
    await allowTools(page);
    stand.says(stream(call("clock", {}), { finish: "tool_calls" }), stream(["fine"]));
    await chat.send("time");
    await chat.last.getByText("Clock wants to run").waitFor();
    await page.getByRole("button", { name: "Stop" }).click();
    await chat.ended("stopped");
    await chat.last.getByText("was left unanswered").waitFor();
    await chat.ask("go on");
    assert.deepEqual(stand.bodies[1].messages.map(({ role }) => role), ["user", "user"], "a call without its result is not sent");
  }));

test("settings go into the request, are kept, and wrong ones are refused", () =>
  place.page(async ({ page, chat, stand }) => {
    const openAndFill = async (values) => {
      await page.getByLabel("Settings").click();
      for (const [label, value] of Object.entries(values)) await page.getByLabel(label, { exact: true }).fill(value);
    };
    await openAndFill({ "System prompt": "Be brief.", Temperature: "5", "Top-p": "0,9", "Longest answer": "64", Seed: "7" });
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("A number from 0 to 2, or nothing").waitFor();
    await page.getByLabel("Temperature").fill("0.4");
    await page.getByLabel("Thinking", { exact: true }).selectOption("off");
    await page.getByRole("button", { name: "Save" }).click();
    await page.reload();
    await chat.status.getByText("Ready").waitFor();
    stand.says(stream(["ok"]));
    await chat.ask("hi");
    const { messages, temperature, top_p: topP, max_completion_tokens: most, seed, chat_template_kwargs: template } = stand.bodies[0];
    assert.deepEqual(messages[0], { role: "system", content: "Be brief." });
    assert.deepEqual({ temperature, topP, most, seed, template }, { temperature: 0.4, topP: 0.9, most: 64, seed: 7, template: { enable_thinking: false } });
  }));

const tiny = { id: "tiny", name: "Tiny", state: "loaded", bytes: 3_000_000 };
const big = { id: "big", name: "Big", state: "pulling", completed: 1, total: 2_000_000 };

test("models: another one is used, a missing one is fetched with progress, and stopping is possible", () =>
  place.page(
    async ({ page, chat, stand }) => {
      await page.getByRole("button", { name: "Model: Tiny" }).click();
      const dialog = page.getByRole("dialog", { name: "Models" });
      const row = (name) => dialog.getByRole("listitem").filter({ hasText: name });
      await row("Other").getByText("rawloop serve --model other").waitFor();
      assert.equal(await row("Other").getByRole("button").count(), 0);
      await row("Second").getByRole("button", { name: "Use" }).click();
      const line = gate();
      stand.routes.set("POST /api/pull", async (response, { body }) => {
        assert.equal(body.model, "big");
        response.writeHead(200, { "Content-Type": "application/x-ndjson" });
        response.write('{"status":"downloading","completed":0,"total":2000000}\n{"status":"downloading","compl');
        response.write('eted":840000,"total":2000000}\n');
        await line.opened;
        response.end('{"status":"success"}\n');
      });
      await row("Big").getByRole("button", { name: "Fetch" }).click();
      await row("Big").getByText("downloading, 840 kB of 2 MB").waitFor();
      assert.equal(await row("Big").getByRole("progressbar").getAttribute("value"), "42");
      await snapshot(page, "models");
      assert.equal(await page.locator("#model-name").textContent(), "big 42 %");
      assert.equal(await chat.status.textContent(), "Fetching big, 42 %");
      stand.catalog.models[2].state = "ready";
      line.open();
      await row("Big").getByRole("button", { name: "Use" }).waitFor();
      await page.keyboard.press("Escape");
      const loaded = gate();
      stand.says(stream([loaded.opened, "ok"]));
      await chat.send("hi");
      await chat.status.getByText("Loading the model").waitFor();
      Object.assign(stand.catalog.models[0], { state: "ready" });
      Object.assign(stand.catalog.models[1], { state: "loaded" });
      loaded.open();
      await chat.ended();
      assert.equal(stand.bodies[0].model, "second");
      await page.locator('#model-dot[data-state="loaded"]').waitFor();
    },
    {
      before: ({ stand }) => {
        stand.catalog = {
          models: [
            { id: "tiny", name: "Tiny", state: "loaded", bytes: 3_000_000 },
            { id: "second", name: "Second", state: "ready", bytes: 900_000_000 },
            { id: "big", name: "Big", state: "absent", bytes: 2_000_000 },
            { id: "other", name: "Other", state: "ready", bytes: 5_000_000, command: "rawloop serve --model other" },
          ],
        };
        stand.routes.set("GET /api/models", (response) => json(stand.catalog)(response));
      },
    },
  ));

test("a model that somebody else fetches can be watched, and none that cannot answer is asked", () =>
  place.page(
    async ({ page, chat, stand }) => {
      await page.getByRole("button", { name: "Model: Tiny" }).click();
      const row = page.getByRole("dialog", { name: "Models" }).getByRole("listitem").filter({ hasText: "Big" });
      await row.getByText("Being fetched · 2 MB").waitFor();
      const line = gate();
      stand.routes.set("POST /api/pull", async (response, { body }) => {
        assert.equal(body.model, "big");
        response.write('{"status":"Converting: tensors","completed":500000,"total":1000000}\n');
        await line.opened;
        response.end('{"status":"success"}\n');
      });
      await row.getByRole("button", { name: "Watch" }).click();
      await row.getByText("Converting: tensors, 500 kB of 1 MB").waitFor();
      stand.routes.set("GET /api/models", json({ models: [tiny, { ...big, state: "ready", command: "rawloop serve --model big" }] }));
      line.open();
      await row.getByText("rawloop serve --model big").waitFor();
      await page.keyboard.press("Escape");
      stand.says(stream(["ok"]));
      await chat.ask("hi");
      assert.equal(stand.bodies[0].model, "tiny", "the chosen model is not there to answer");
    },
    {
      before: async ({ page, stand }) => {
        stand.routes.set("GET /api/models", json({ models: [tiny, big] }));
        await page.addInitScript(() => localStorage.setItem("rawloop.settings", JSON.stringify({ model: "big" })));
      },
    },
  ));

test("a pull that fails says why and can be started again", () =>
  place.page(
    async ({ page, stand }) => {
      await page.getByRole("button", { name: /^Model/ }).click();
      stand.routes.set("POST /api/pull", (response) => response.end('{"status":"downloading","completed":1,"total":2}\n{"error":"the disk is full"}\n'));
      await page.getByRole("button", { name: "Fetch" }).click();
      await page.getByText("the disk is full").waitFor();
      await page.getByRole("button", { name: "Fetch" }).waitFor();
      stand.routes.set("POST /api/pull", error(403, "Accept the licence first."));
      await page.getByRole("button", { name: "Fetch" }).click();
      await page.getByText("Accept the licence first.").waitFor();
    },
    {
      wait: false,
      before: ({ stand }) => stand.routes.set("GET /api/models", json({ models: [{ id: "big", name: "Big", state: "absent" }] })),
    },
  ));

test("a long answer stays in view until the reader scrolls up", () =>
  place.page(async ({ page, chat, stand }) => {
    const rest = gate();
    const lines = Array.from({ length: 60 }, (_, index) => `Line ${index}\n\n`);
    stand.says(stream([...lines, rest.opened, ...lines]));
    await chat.send("much");
    await chat.last.getByText("Line 59").waitFor();
    const gap = () => page.locator("#scroll").evaluate((e) => Math.round(e.scrollHeight - e.scrollTop - e.clientHeight));
    await page.waitForFunction(() => {
      const e = document.getElementById("scroll");
      return e.scrollHeight - e.scrollTop - e.clientHeight < 4;
    });
    await page.locator("#scroll").evaluate((e) => e.scrollTo(0, 100));
    await page.getByRole("button", { name: "Newest" }).waitFor();
    rest.open();
    await chat.ended();
    assert.ok((await gap()) > 500, "the reader's place is kept");
    await page.getByRole("button", { name: "Newest" }).click();
    assert.ok((await gap()) < 4);
  }));
