// Whatever a model, a person or a stored chat says stays text; nothing leaves the origin.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Place } from "./browser.mjs";
import { call, stream } from "./stand.mjs";

const place = new Place();
before(() => place.start());
after(() => place.stop());

const hostile = [
  "<script>window.hit = 1</script>",
  "<img src=x onerror=\"window.hit = 2\">",
  "<svg/onload=window.hit=3>",
  "<iframe srcdoc=\"<script>parent.hit=4</script>\"></iframe>",
  "<details open ontoggle=window.hit=5>",
  "<a href=\"javascript:window.hit=6\">x</a>",
  "[link](javascript:window.hit=7)",
  "[link](JaVaScRiPt&#58;window.hit=8)",
  "[link](\u0001javascript:window.hit=9)",
  "[link](data:text/html,<script>window.hit=10</script>)",
  "[link](vbscript:x) <javascript:window.hit=11>",
  "![picture](https://example.org/spy.png)",
  "![picture](/v1/models)",
  "![\"onerror=window.hit=12 x=](x)",
  "[x](https://example.org \"onmouseover=window.hit=13\")",
  "<style>*{display:none}</style><link rel=stylesheet href=https://example.org/a.css>",
  "<form action=https://example.org><input name=a></form>",
  "<base href=https://example.org/><meta http-equiv=refresh content=\"0;url=https://example.org\">",
  "```html\n<script>window.hit = 14</script>\n```",
  "```\"><img src=x onerror=window.hit=15>\ncode\n```",
  "<math><mtext><table><mglyph><style><!--</style><img title=\"--&gt;&lt;img src=1 onerror=window.hit=16&gt;\">",
  "| a |\n|---|\n| <img src=x onerror=window.hit=17> |",
  "[a]: javascript:window.hit=18\n[a]",
  "&lt;img src=x onerror=window.hit=19&gt;",
  "<div id=message></div><div id=toasts class=composer></div>",
];

/** Nothing ran, nothing was made that could run, load or pass for a part of the page; and every link is harmless. */
async function inert(page, where) {
  const found = await page.evaluate((selector) => {
    const root = document.querySelectorAll(selector);
    const all = [...root].flatMap((element) => [...element.querySelectorAll("*")]);
    const own = (element) => element.closest("figcaption, summary, .actions");
    return {
      hit: window.hit,
      tags: all.filter((e) => !own(e) && /^(script|img|svg|iframe|style|link|form|input|base|meta|math|object|embed|video|audio)$/i.test(e.tagName)).map((e) => e.outerHTML),
      listeners: all.flatMap((e) => [...e.attributes]).filter((a) => /^on/i.test(a.name)).map((a) => a.name),
      ids: all.filter((e) => e.id).map((e) => e.id),
      links: all.filter((e) => e.tagName === "A" && e.hasAttribute("href")).map((e) => [e.protocol, e.rel, e.target].join(" ")),
    };
  }, where);
  const links = new Set(found.links);
  assert.deepEqual({ ...found, links: [] }, { hit: undefined, tags: [], listeners: [], ids: [], links: [] });
  for (const link of links) assert.match(link, /^(https?|mailto): noopener noreferrer nofollow _blank$/);
}

test("hostile answers are inert, whole and in pieces", () =>
  place.page(async ({ page, chat, stand }) => {
    const all = hostile.join("\n\n");
    stand.says(stream([all]), stream([...all]), stream(hostile.map((text) => ({ reasoning_content: `${text}\n\n` }))));
    await chat.ask("whole");
    await chat.ask("pieces");
    await chat.ask("thoughts");
    await chat.last.locator("summary").click();
    await chat.last.locator(".thought-body p").first().waitFor();
    for (const link of await chat.answers.first().locator("a").all()) await link.hover({ force: true }).catch(() => {});
    await inert(page, "article.answer");
    assert.match(await chat.answers.first().textContent(), /<script>window\.hit = 1<\/script>/, "raw HTML is shown as text");
    assert.match(await chat.answers.first().textContent(), /picture/, "a picture is shown as a link");
    assert.deepEqual(stand.paths.filter((path) => path.includes("spy") || path === "/x"), []);
  }));

test("hostile answers are inert one by one", () =>
  place.page(async ({ page, chat, stand }) => {
    for (const text of hostile) {
      stand.says(stream([text]));
      await chat.ask("go");
      await inert(page, "article.answer");
    }
    await page.reload();
    await chat.ended();
    await inert(page, "article.answer");
  }));

test("hostile messages, titles and tool calls are inert", () =>
  place.page(async ({ page, chat, stand }) => {
    const text = "<img src=x onerror=window.hit=1><script>window.hit=2</script>";
    stand.says(stream(call(text, { a: text }), { finish: "tool_calls" }), stream([text]));
    await chat.send(text);
    await chat.last.getByRole("button", { name: "Run", exact: true }).click();
    await chat.ended();
    assert.equal(await page.getByRole("heading", { level: 1 }).textContent(), "<img src=x…");
    await inert(page, "article.answer .parts > .step > :not(.call)");
    assert.equal(await page.evaluate(() => window.hit), undefined);
    assert.equal(await page.locator("main img, main script, nav img").count(), 0);
  }));

test("the policy forbids what the page does not need", () =>
  place.page(
    async ({ page }) => {
      const outcome = await page.evaluate(async () => {
        // From a timer: what a driver runs itself is not bound by the policy in all points.
        const attempt = async (act) => {
          try {
            await new Promise((resolve, reject) => setTimeout(() => Promise.resolve().then(act).then(resolve, reject)));
            return "allowed";
          } catch (error) {
            return error.name;
          }
        };
        const script = document.createElement("script");
        const inline = await attempt(() => {
          script.textContent = "window.hit = 1";
          document.body.append(script);
        });
        return {
          html: await attempt(() => (document.body.innerHTML += "<b>x</b>")),
          code: await attempt(() => new Function("return 1")()),
          elsewhere: await attempt(() => fetch("https://example.org/")),
          inline: inline === "allowed" ? window.hit : "refused",
        };
      });
      assert.deepEqual(outcome, { html: "TypeError", code: "EvalError", elsewhere: "TypeError", inline: "refused" });
    },
    { quiet: false },
  ));

test("very long and very deep answers are shown", () =>
  place.page(async ({ chat, stand }) => {
    stand.says(stream([">".repeat(5000) + "deep"]), stream(["*a **b ".repeat(3000)]), stream(["[".repeat(3000), "(".repeat(3000)]), stream(["word ".repeat(100_000)]));
    for (const ask of ["quotes", "stars", "brackets", "length"]) await chat.ask(ask);
    assert.match(await chat.answers.first().textContent(), /deep/);
    assert.ok((await chat.last.textContent()).length > 499_000);
  }));

test("pages of another origin cannot frame this one, and its files say what they are", () =>
  place.page(async ({ page, stand }) => {
    for (const path of ["", "app/main.js", "style/base.css", "icon.svg"]) {
      const response = await page.request.get(stand.url + path);
      assert.equal(response.status(), 200, path);
      assert.match(response.headers()["content-security-policy"], /default-src 'none'.*script-src 'self';.*frame-ancestors 'none'.*require-trusted-types-for 'script'/);
    }
    const missing = await page.request.get(`${stand.url}app/nothing.js`);
    assert.equal(missing.status(), 404);
  }));
