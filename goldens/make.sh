#!/bin/sh
# Remakes everything that depends on the tiny checkpoint or on the synthetic presets, together: the pack, the goldens and
# the baseline of the task gate (`tasks` in goldens/tiny/transcripts.json). About ten minutes on two cores.
#
#   goldens/make.sh                      models/tiny/checkpoint and models/tiny/assistant as they are
#   goldens/make.sh CHECKPOINT ASSISTANT first copies a new pair over them
#
# PYTHON names an interpreter with goldens/requirements.txt installed, PACK the pack to write.
set -eu

checkpoint=$(realpath "${1:-$(dirname "$0")/../models/tiny/checkpoint}")
assistant=$(realpath "${2:-$(dirname "$0")/../models/tiny/assistant}")
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
pack=${PACK:-models/tiny/tiny.rlp}
rawloop() { cargo run --release --quiet --bin rawloop -- "$@"; }

adopt() {
    [ "$1" -ef "$2" ] || cp "$1"/* "$2"/
}
adopt "$checkpoint" models/tiny/checkpoint
adopt "$assistant" models/tiny/assistant

rawloop convert models/tiny/checkpoint "$pack" --assistant models/tiny/assistant --name tiny-gemma4
rm -f goldens/*/*.json goldens/*/*.safetensors
"$python" -m goldens.make models/tiny/checkpoint goldens/tiny --questions 200 --assistant models/tiny/assistant

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rawloop synth --preset tiny-e4b --seed 1 "$work/tiny-e4b" --checkpoint --assistant --ordered --quiet
"$python" -m goldens.make "$work/tiny-e4b" goldens/tiny-e4b --assistant "$work/tiny-e4b/assistant"
rawloop synth --preset narrow-e2b --seed 1 "$work/narrow-e2b" --checkpoint --quiet
"$python" -m goldens.make "$work/narrow-e2b" goldens/narrow-e2b
