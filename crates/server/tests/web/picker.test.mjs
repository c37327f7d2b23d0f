// The list of models with the program itself, which fetches one from a hub on this machine. Runs where RAWLOOP_BIN names the program
// (scripts/check-web.sh builds it).

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { createInterface } from "node:readline";

import { Place, snapshot } from "./browser.mjs";
import { Hub } from "./hub.mjs";
import { gate, pause } from "./stand.mjs";

const skip = process.env.RAWLOOP_BIN ? false : "no program is named";
const checkpoint = new URL("../../../../models/tiny/checkpoint", import.meta.url).pathname;
const catalog = {
  version: 1,
  models: [
    {
      id: "little",
      name: "A little model",
      repository: "me/little",
      files: ["config.json", "tokenizer.json", "model*.safetensors", "generation_config.json?", "chat_template.jinja?"],
      pack_bytes: 9_000_000,
    },
  ],
};

const place = new Place();
const hub = new Hub(checkpoint);
let home, server, address;

before(async () => {
  if (skip) return;
  await place.start();
  await hub.start();
  home = mkdtempSync(join(tmpdir(), "rawloop-picker-"));
  writeFileSync(join(home, "catalog.json"), JSON.stringify(catalog));
  const kept = Object.entries(process.env).filter(([name]) => !/^hf_|^huggingface|_proxy$|^rawloop_packs$/i.test(name));
  const folders = ["HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"].map((name) => [name, home]);
  server = spawn(process.env.RAWLOOP_BIN, ["serve", "--port", "0", "--pull", "--catalog", join(home, "catalog.json")], {
    env: Object.fromEntries([...kept, ...folders, ["HF_ENDPOINT", hub.url]]),
    stdio: ["ignore", "pipe", "ignore"],
  });
  for await (const line of createInterface(server.stdout)) {
    address = /http:\/\/127\.0\.0\.1:\d+/.exec(line)?.[0];
    if (address) break;
  }
});

after(async () => {
  if (skip) return;
  server.kill();
  await hub.stop();
  await place.stop();
  rmSync(home, { recursive: true, force: true });
});

test("a model is fetched in the page, stopped, gone on with and converted", { skip }, () =>
  place.page(async ({ page, chat }) => {
    await page.getByRole("button", { name: /^Model/ }).click();
    const dialog = page.getByRole("dialog", { name: "Models" });
    const row = dialog.getByRole("listitem").filter({ hasText: "A little model" });
    await row.getByText("Not fetched · 9 MB").waitFor();

    // Half of the weights, and no more before the download is stopped.
    const rest = gate();
    let blocks = 0;
    hub.wait = () => (++blocks > 20 ? rest.opened : pause(20));
    await row.getByRole("button", { name: "Fetch" }).click();
    await row.getByText(/Fetching model\.safetensors, .* MB\/s, .* of/).waitFor();
    await row.getByRole("progressbar").waitFor();
    await snapshot(page, "picker");
    await row.getByRole("button", { name: "Stop" }).click();
    await page.getByText("What has been fetched is kept.").waitFor();
    const unfinished = () => fetch(`${address}/api/models`).then((answer) => answer.json());
    while ((await unfinished()).models.some((model) => model.state === "pulling")) await pause(20);
    assert.equal(existsSync(join(home, "rawloop/packs/little.rlp")), false);
    rest.open();
    hub.wait = () => pause(0);

    // The list is asked for again, as after any time away.
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: /^Model/ }).click();
    await row.getByRole("button", { name: "Fetch" }).click();
    await page.getByText("A little model is there.").waitFor();
    await row.getByText("rawloop serve --model little").waitFor();
    assert.equal(await row.getByRole("button").count(), 0, "it cannot answer before the server is started with it");
    assert.equal(existsSync(join(home, "rawloop/packs/little.rlp")), true);
    assert.ok(hub.starts.length > 1 && hub.starts.at(-1) > 0, `it went on: ${hub.starts}`);
    await snapshot(page, "picker-ready");

    await page.keyboard.press("Escape");
    await chat.ask("What is 20 + 31?");
    assert.match(await chat.last.locator(".text").textContent(), /\S/);
  }, { address }));

test("a server without a catalog lists its model and fetches nothing", { skip: process.env.RAWLOOP_WEB_SERVER ? skip : "no server is named" }, () =>
  place.page(async ({ page }) => {
    await page.getByRole("button", { name: /^Model/ }).click();
    const rows = page.getByRole("dialog", { name: "Models" }).getByRole("listitem");
    await rows.getByText("In use").waitFor();
    assert.equal(await rows.count(), 1);
    assert.equal(await page.getByRole("button", { name: "Fetch" }).count(), 0);
  }, { address: process.env.RAWLOOP_WEB_SERVER }));
