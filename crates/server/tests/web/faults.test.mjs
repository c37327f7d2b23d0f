// What goes wrong is said in words, what came is kept, and the person can go on.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Place, snapshot } from "./browser.mjs";
import { error, json, stream } from "./stand.mjs";

const place = new Place();
before(() => place.start());
after(() => place.stop());

const retry = (chat) => chat.last.getByRole("button", { name: /^Try again/ });

test("a failure of the server is shown with a way to try again", () =>
  place.page(async ({ page, chat, stand }) => {
    stand.says(error(500, "the backend stopped"), stream(["Here."]));
    await chat.send("hi");
    await chat.ended("error");
    assert.match(await chat.last.getByRole("alert").textContent(), /The server failed: the backend stopped/);
    await snapshot(page, "error");
    await retry(chat).click();
    await chat.last.getByText("Here.").waitFor();
    await chat.ended();
    assert.deepEqual(stand.bodies[1].messages, [{ role: "user", content: "hi" }]);
    assert.equal(await chat.users.count(), 1);
  }));

test("a failure without JSON still has words", () =>
  place.page(async ({ chat, stand }) => {
    stand.says((response) => {
      response.writeHead(502, { "Content-Type": "text/html" });
      response.end("<h1>Bad gateway</h1>");
    });
    await chat.send("hi");
    await chat.ended("error");
    assert.match(await chat.last.textContent(), /The server failed \(status 502\)/);
  }));

test("a refusal says what the server said", () =>
  place.page(async ({ chat, stand }) => {
    stand.says(error(400, "The prompt has 9,000 tokens; 8,192 fit."));
    await chat.send("hi");
    await chat.ended("error");
    assert.match(await chat.last.textContent(), /The prompt has 9,000 tokens; 8,192 fit\./);
  }));

test("a busy server is waited for as long as it asks", () =>
  place.page(async ({ chat, stand }) => {
    stand.says(error(429, "All places are taken.", { "Retry-After": "2" }), stream(["Now."]));
    await chat.send("hi");
    await chat.ended("error");
    assert.match(await chat.last.textContent(), /All places are taken\./);
    assert.match(await retry(chat).textContent(), /Try again in [12] s/);
    assert.equal(await retry(chat).isDisabled(), true);
    await chat.last.getByRole("button", { name: "Try again", exact: true }).and(chat.page.locator(":enabled")).click();
    await chat.last.getByText("Now.").waitFor();
  }));

test("a connection that breaks keeps the text, also over a reload", () =>
  place.page(async ({ page, chat, stand }) => {
    stand.says(stream(["The first half"], { cut: true }), stream(["Whole."]));
    await chat.send("hi");
    await chat.ended("error");
    assert.match(await chat.last.textContent(), /The first half[\s\S]*The connection was lost before the answer was complete\. What came is kept\./);
    await page.reload();
    await chat.ended("error");
    assert.match(await chat.last.textContent(), /The first half/);
    await retry(chat).click();
    await chat.last.getByText("Whole.").waitFor();
  }));

test("a stream that ends without a finish is a lost connection", () =>
  place.page(async ({ chat, stand }) => {
    stand.says((response) => {
      response.writeHead(200, { "Content-Type": "text/event-stream" });
      response.end('data: {"choices":[{"index":0,"delta":{"content":"abc"}}]}\n\ndata: {"choices":[{"ind');
    });
    await chat.send("hi");
    await chat.ended("error");
    assert.match(await chat.last.textContent(), /abc[\s\S]*connection was lost/);
  }));

test("an error inside the stream is shown", () =>
  place.page(async ({ chat, stand }) => {
    stand.says(stream(["abc"], { fails: "The time for this request is over." }));
    await chat.send("hi");
    await chat.ended("error");
    assert.match(await chat.last.textContent(), /abc[\s\S]*The time for this request is over\./);
  }));

test("an answer that was cut by its length says so, an empty one too", () =>
  place.page(async ({ chat, stand }) => {
    stand.says(stream(["abc"], { finish: "length" }), stream([]));
    await chat.ask("hi");
    assert.match(await chat.last.textContent(), /reached its longest length/);
    await chat.ask("again");
    assert.match(await chat.last.textContent(), /The model said nothing/);
  }));

test("a server that is gone is named when the page starts and when a message is sent", () =>
  place.page(
    async ({ chat, stand }) => {
      await chat.status.getByText("The server cannot be reached.").waitFor();
      await chat.send("hi");
      await chat.ended("error");
      assert.match(await chat.last.textContent(), /cannot be reached/);
      stand.routes.set("GET /v1/models", json({ data: [{ id: "tiny" }] }));
      stand.routes.delete("POST /v1/chat/completions");
      stand.says(stream(["Back."]));
      await retry(chat).click();
      await chat.last.getByText("Back.").waitFor();
      await chat.ended();
      assert.equal(await chat.status.textContent(), "Ready");
    },
    {
      wait: false,
      before: ({ stand }) => {
        // Every time: a browser sends a request again by itself when a connection that it kept open breaks under it.
        for (const route of ["GET /v1/models", "POST /v1/chat/completions"]) {
          stand.routes.set(route, (response) => response.destroy());
        }
      },
    },
  ));

test("a key is asked for, sent, and asked for again when it is wrong", () =>
  place.page(
    async ({ page, chat, stand }) => {
      const dialog = page.getByRole("dialog", { name: "API key" });
      await dialog.getByText("This server asks for a key.").waitFor();
      await snapshot(page, "key");
      await dialog.getByLabel("API key").fill("wrong");
      await dialog.getByRole("button", { name: "Continue" }).click();
      await dialog.getByLabel("API key").fill("right");
      await dialog.getByRole("button", { name: "Continue" }).click();
      await chat.status.getByText("Ready").waitFor();
      stand.says((response, { request }) => stream([request.headers.authorization])(response));
      await chat.ask("hi");
      assert.match(await chat.last.textContent(), /Bearer right/);
      await page.reload();
      await chat.status.getByText("Ready").waitFor();
      stand.says(error(401, "The key has changed."), stream(["in"]));
      await chat.send("hi");
      await dialog.getByText("The key has changed.").waitFor();
      await dialog.getByLabel("API key").fill("right");
      await dialog.getByRole("button", { name: "Continue" }).click();
      await chat.last.getByText("in", { exact: true }).waitFor();
    },
    {
      wait: false,
      before: ({ stand }) =>
        stand.routes.set("GET /v1/models", (response, { request }) =>
          request.headers.authorization === "Bearer right"
            ? json({ data: [{ id: "tiny" }] })(response)
            : error(401, "This server asks for a key.")(response),
        ),
    },
  ));

test("a full storage is said, and the chat goes on", () =>
  place.page(
    async ({ page, chat, stand }) => {
      stand.says(stream(["one"]), stream(["two"]));
      await chat.ask("hi");
      await page.getByRole("alert").getByText("storage is full").waitFor();
      await chat.ask("more");
      assert.match(await chat.last.textContent(), /two/);
    },
    {
      before: ({ page }) =>
        page.addInitScript(() => {
          IDBObjectStore.prototype.put = () => {
            throw new DOMException("no room", "QuotaExceededError");
          };
        }),
    },
  ));

test("a browser that keeps nothing is a page that works until it is closed", () =>
  place.page(
    async ({ page, chat, stand }) => {
      await page.getByText("chats end with the tab").waitFor();
      stand.says(stream(["one"]));
      await chat.ask("hi");
      await page.getByRole("button", { name: "New chat" }).click();
      await page.getByRole("navigation").getByRole("button", { name: "hi", exact: true }).click();
      await chat.last.getByText("one").waitFor();
      await page.getByRole("button", { name: "Dark" }).click();
      assert.equal(await page.locator("html").getAttribute("data-theme"), "dark");
    },
    {
      before: ({ page }) =>
        page.addInitScript(() => {
          for (const name of ["indexedDB", "localStorage", "sessionStorage"]) {
            Object.defineProperty(window, name, {
              get() {
                throw new DOMException("closed", "SecurityError");
              },
            });
          }
        }),
    },
  ));

test("stored settings of another shape do no harm", () =>
  place.page(
    async ({ chat, stand }) => {
      stand.says(stream(["one"]));
      await chat.ask("hi");
      assert.deepEqual(Object.keys(stand.bodies[0]).sort(), ["messages", "model", "stream", "stream_options", "temperature"]);
    },
    {
      before: ({ page }) =>
        page.addInitScript(() => localStorage.setItem("rawloop.settings", '{"temperature":0.5,"seed":"x","tools":{"a":1},"system":7,"thinking":null}')),
    },
  ));
