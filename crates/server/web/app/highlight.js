// Colours in code: comments, words of the language, strings and numbers. The browser paints ranges of the text (CSS Custom Highlight); no
// element is made, so a block can grow by appending text and copies as it is. Browsers without it show plain code.
//
// This is a reader's aid and no parser: one pattern per family of languages, words of a family in one list.

const words = (text) => new Set(text.split(" "));

const cLike = words(
  "abstract as async auto await bool boolean break byte case catch chan char class const constexpr continue crate default defer delete do double dyn else enum " +
    "export extends extern false final finally float fn for foreach from func function go guard if impl implements import in inline instanceof int interface internal " +
    "is let long loop map match mod move mut namespace native new nil null nullptr operator override package private protected pub public range ref return select self " +
    "Self short signed sizeof static static_assert struct super switch template this throw throws trait true try type typedef typeof undefined union unsafe unsigned use " +
    "using val var virtual void volatile when where while with yield",
);
const hashLike = words(
  "and as assert async await begin break case class continue declare def del do done elif else elsif end ensure esac except export exit False fi finally for from function " +
    "global if import in is lambda local match module nil None nonlocal not or pass raise rescue return self set source then True true false try unless until while with yield",
);
const sqlLike = words(
  "add all alter and as asc begin between by case check column commit create cross default delete desc distinct drop else end exists foreign from full group having in index " +
    "inner insert into is join key left like limit not null offset on or order outer primary references right rollback select set table then union unique update using values " +
    "view when where with",
);
const data = words("true false null yes no on off");

const string = String.raw`"(?:\\[^]|[^"\\\n])*"?|'(?:\\[^]|[^'\\\n])*'?`;
const number = String.raw`\b\d[\w.]*`;
const word = String.raw`[A-Za-z_$][\w$]*`;
const pattern = (comment, text = string) => new RegExp(`(?<comment>${comment})|(?<string>${text})|(?<number>${number})|(?<word>${word})`, "g");

const slashes = String.raw`\/\/.*|\/\*[^]*?(?:\*\/|$)`;
const families = [
  // A tick in Rust begins a lifetime more often than a character.
  ["rust rs", pattern(slashes, String.raw`b?r?(#*)"(?:\\[^]|[^"\\])*"?|'(?:\\[^']*|[^'\\\n])'`), cLike],
  ["js jsx javascript ts tsx typescript mjs", pattern(slashes, `${string}|\`(?:\\\\[^]|[^\`\\\\])*\`?`), cLike],
  ["c h cpp c++ cc cxx java go golang swift kotlin kt cs csharp c# php scala dart zig css scss wgsl glsl cuda", pattern(slashes), cLike],
  ["python py", pattern("#.*", String.raw`"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|${string}`), hashLike],
  ["sh bash zsh shell console ruby rb perl r elixir make makefile dockerfile nix", pattern(String.raw`(?<![\w$])#.*`), hashLike],
  ["yaml yml toml ini conf", pattern(String.raw`(?<!\S)#.*`), data],
  ["json json5 jsonc", pattern(slashes), data],
  ["sql sqlite postgresql mysql", pattern(String.raw`--.*|\/\*[^]*?(?:\*\/|$)`), sqlLike],
  ["lua haskell hs", pattern("--.*"), words("and break case data deriving do else elseif end false for function goto if import in infix instance let local module newtype nil not of or repeat return then true type until where while")],
  ["html xml svg vue", /(?<comment><!--[^]*?(?:-->|$))|(?<string>(?<==)\s*(?:"[^"]*"?|'[^']*'?))|(?<word>(?<=<\/?)[\w:-]+)/g, null],
];
const byName = new Map(families.flatMap(([names, ...rest]) => names.split(" ").map((name) => [name, rest])));

const paint = {};
if (globalThis.CSS?.highlights && globalThis.Highlight) {
  for (const kind of ["comment", "string", "number", "word"]) CSS.highlights.set(`code-${kind}`, (paint[kind] = new Highlight()));
}

const longest = 100_000;

/** Colours the text of `code` and returns what was painted, for [`unpaint`]. */
export function paintCode(code, language) {
  const family = byName.get(language.toLowerCase());
  const text = code.firstChild;
  if (!family || !paint.word || text?.nodeType !== Node.TEXT_NODE || text.length > longest) return [];
  const [pattern, known] = family;
  const painted = [];
  for (const { groups, index, 0: found } of text.data.matchAll(pattern)) {
    const kind = groups.comment ? "comment" : groups.string ? "string" : groups.number ? "number" : "word";
    if (kind === "word" && known && !known.has(known === sqlLike ? found.toLowerCase() : found)) continue;
    const range = new StaticRange({ startContainer: text, startOffset: index, endContainer: text, endOffset: index + found.length });
    paint[kind].add(range);
    painted.push([kind, range]);
  }
  return painted;
}

/** Takes colours off, before their text changes or goes away. */
export function unpaint(painted) {
  for (const [kind, range] of painted) paint[kind].delete(range);
}
