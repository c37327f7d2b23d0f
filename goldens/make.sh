#!/bin/sh
# Remakes everything that depends on the tiny checkpoint or on the synthetic presets, together: the pack, the goldens and
# the baseline of the task gate (`tasks` in goldens/tiny/transcripts.json). About ten minutes on two cores. All of it is
# made in a folder of its own and moved into place at the end, so that a run that fails changes nothing.
#
#   goldens/make.sh                      models/tiny/checkpoint and models/tiny/assistant as they are
#   goldens/make.sh CHECKPOINT ASSISTANT adopts a new pair; the chat template stays where the new checkpoint has none
#
# PYTHON names an interpreter with goldens/requirements.txt installed, RAWLOOP a built program to use, PACK the pack to
# write. KEEP_SYNTHETIC=1 leaves the goldens of the synthetic presets, which no checkpoint changes.
set -eu

checkpoint=$(realpath "${1:-$(dirname "$0")/../models/tiny/checkpoint}")
assistant=$(realpath "${2:-$(dirname "$0")/../models/tiny/assistant}")
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
pack=${PACK:-models/tiny/tiny.rlp}
rawloop() {
    if [ -n "${RAWLOOP:-}" ]; then "$RAWLOOP" "$@"; else cargo run --release --quiet --bin rawloop -- "$@"; fi
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir -p "$work/models" "$work/goldens"
cp -r models/tiny/checkpoint models/tiny/assistant "$work/models"
cp "$checkpoint"/* "$work/models/checkpoint"
cp "$assistant"/* "$work/models/assistant"
rawloop convert "$work/models/checkpoint" "$work/tiny.rlp" --assistant "$work/models/assistant" --name tiny-gemma4
"$python" -m goldens.make "$work/models/checkpoint" "$work/goldens/tiny" --questions 200 \
    --assistant "$work/models/assistant"

if [ -z "${KEEP_SYNTHETIC:-}" ]; then
    rawloop synth --preset tiny-e4b --seed 1 "$work/tiny-e4b" --checkpoint --assistant --ordered --quiet
    "$python" -m goldens.make "$work/tiny-e4b" "$work/goldens/tiny-e4b" --assistant "$work/tiny-e4b/assistant"
    rawloop synth --preset narrow-e2b --seed 1 "$work/narrow-e2b" --checkpoint --quiet
    "$python" -m goldens.make "$work/narrow-e2b" "$work/goldens/narrow-e2b"
fi

for folder in "$work"/goldens/*; do
    name=$(basename "$folder")
    rm -f "goldens/$name"/*.json "goldens/$name"/*.safetensors
    cp "$folder"/* "goldens/$name"
done
cp "$work"/models/checkpoint/* models/tiny/checkpoint
cp "$work"/models/assistant/* models/tiny/assistant
cp "$work/tiny.rlp" "$pack"
