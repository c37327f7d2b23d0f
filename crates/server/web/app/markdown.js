// A model's Markdown as harmless elements, while it grows.
//
// Two walls: the renderer below turns raw HTML and pictures into text and links, and DOMPurify lets only the listed elements and addresses
// through. The server's content policy is a third. A view keeps the elements of blocks that did not change, so a long answer costs one
// block per update, and what the reader has selected stays selected.

import { Marked } from "../vendor/marked.js";
import DOMPurify from "../vendor/dompurify.js";
import { button, copy, h } from "./dom.js";
import { paintCode, unpaint } from "./highlight.js";

const longest = 400_000;

const escape = (text) => text.replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);

const marked = new Marked({
  gfm: true,
  breaks: true,
  renderer: {
    html: ({ raw }) => escape(raw),
    // A picture would be a request to somewhere: it is shown as a link that nobody follows unasked.
    image: ({ href, text }) => `<a href="${escape(href)}">${escape(text || href)}</a>`,
    heading({ tokens, depth }) {
      return `<h${depth}>${this.parser.parseInline(tokens)}</h${depth}>`;
    },
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
  },
});

const harmless = {
  ALLOWED_TAGS: "p br hr h3 h4 h5 h6 strong em del code pre blockquote ul ol li a table thead tbody tr th td".split(" "),
  ALLOWED_ATTR: ["href", "title", "start", "align", "class"],
  // The pattern below holds for all values but those of these two and a few that the library knows.
  ADD_URI_SAFE_ATTR: ["start", "align"],
  ALLOWED_URI_REGEXP: /^(?:https?:\/\/|mailto:)/i,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
};

DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName === "A") {
    if (node.hasAttribute("href")) {
      node.setAttribute("target", "_blank");
      node.setAttribute("rel", "noopener noreferrer nofollow");
    }
  }
  // Classes name the language of code and nothing else.
  if (node.hasAttribute?.("class") && !(node.tagName === "CODE" && /^language-[\w+#.-]{1,30}$/.test(node.className))) node.removeAttribute("class");
});

export class MarkdownView {
  constructor(element) {
    this.element = element;
    this.blocks = [];
    this.text = "";
  }

  /** Shows `text`; blocks that are as they were keep their elements. */
  update(text) {
    if (text === this.text) return;
    this.text = text;
    let tokens;
    try {
      if (text.length > longest) throw new Error("too long");
      tokens = marked.lexer(text).filter((token) => token.type !== "space");
    } catch {
      // Too long or too deeply nested to be laid out: the plain text is always there.
      this.#clear();
      this.levels = "";
      this.element.replaceChildren(h("pre", { class: "plain" }, text));
      return;
    }
    const levels = level(tokens);
    let same = 0;
    if (levels !== this.levels) this.#clear();
    this.levels = levels;
    while (same < tokens.length && this.blocks[same]?.raw === tokens[same].raw) same++;
    const growing = this.blocks[same];
    if (growing && this.blocks.length === same + 1 && tokens.length > same && growCode(growing, tokens[same])) same++;
    this.#clear(same);
    for (const token of tokens.slice(same)) {
      const nodes = render(token);
      this.element.append(...nodes);
      this.blocks.push({ raw: token.raw, type: token.type, lang: token.lang, nodes, painted: paintAll(nodes) });
    }
  }

  /** To be called when the view goes away: colours are held by the document. */
  forget() {
    for (const block of this.blocks) unpaint(block.painted);
  }

  #clear(from = 0) {
    for (const block of this.blocks.splice(from)) {
      unpaint(block.painted);
      for (const node of block.nodes) node.remove();
    }
  }
}

// The page has headings of levels 1 and 2. Those of an answer begin at 3 and leave no level out, whichever ones the model took.
function level(tokens) {
  const headings = tokens.filter((token) => token.type === "heading");
  const used = [...new Set(headings.map((token) => token.depth))].sort();
  for (const heading of headings) heading.depth = Math.min(used.indexOf(heading.depth) + 3, 6);
  return used.join();
}

// The code block that is being written changes its text only: it keeps its place when scrolled sideways, and its button.
function growCode(block, token) {
  if (block.type !== "code" || token.type !== "code" || block.lang !== token.lang) return false;
  const code = block.nodes[0]?.querySelector?.("pre code");
  if (!code) return false;
  unpaint(block.painted);
  code.textContent = token.text;
  block.painted = paintCode(code, languageOf(code));
  block.raw = token.raw;
  return true;
}

const languageOf = (code) => code.className.replace("language-", "");

function paintAll(nodes) {
  const codes = nodes.flatMap((node) => [...(node.querySelectorAll?.("pre code") ?? [])]);
  return codes.flatMap((code) => paintCode(code, languageOf(code)));
}

function render(token) {
  let fragment;
  try {
    fragment = DOMPurify.sanitize(marked.parser([token]), harmless);
  } catch {
    return [h("pre", { class: "plain" }, token.raw)];
  }
  for (const pre of fragment.querySelectorAll("pre")) frameCode(pre);
  for (const table of fragment.querySelectorAll("table")) {
    const scroller = h("div", { class: "table", tabindex: "0", role: "region", "aria-label": "Table" });
    table.replaceWith(scroller);
    scroller.append(table);
  }
  for (const element of fragment.querySelectorAll("p, li, h3, h4, h5, h6, blockquote, td, th")) element.setAttribute("dir", "auto");
  return [...fragment.childNodes];
}

function frameCode(pre) {
  const code = pre.querySelector("code") ?? pre;
  const language = languageOf(code);
  code.textContent = code.textContent.replace(/\n$/, "");
  pre.setAttribute("tabindex", "0");
  pre.setAttribute("dir", "ltr");
  pre.setAttribute("role", "region");
  pre.setAttribute("aria-label", language ? `Code, ${language}` : "Code");
  const control = button("copy", "Copy the code", () => copy(code.textContent, control));
  const figure = h("figure", { class: "code" }, h("figcaption", {}, h("span", {}, language || "text"), control));
  pre.replaceWith(figure);
  figure.append(pre);
}
