# Commands of the project; each is one line that can be typed without this file. CONTRIBUTING.md says what the slow ones are for.

# lists what there is
default:
    @just --list

# talks to the embedded model
chat *ARGS:
    cargo run --release -- chat {{ARGS}}

# every test
test:
    cargo test --workspace

# what CI runs
ci:
    .ci/run

# plants faults that named tests must find
mutations *NAMES:
    scripts/mutations.py {{NAMES}}

# ten minutes of one fuzz target: pack_open, pack_manifest, safetensors_header
fuzz TARGET:
    cargo +nightly fuzz run {{TARGET}} -- -max_total_time=600

# a million strings against the tokenizers crate
tokenizer-equal COUNT="1000000":
    cargo run --release -p rawloop-tokenizer --example fuzz_equal -- {{COUNT}}

# pack, goldens and task baseline from the tiny checkpoint
goldens *ARGS:
    goldens/make.sh {{ARGS}}

# drafts on against off: 500 prompts, seven ways each
drafts PROMPTS="500":
    RAWLOOP_PROMPTS={{PROMPTS}} cargo test -p rawloop-engine --test mtp_model

# answers cancelled at random moments
cancels COUNT="10000":
    RAWLOOP_CANCELS={{COUNT}} cargo test -p rawloop-engine --test chat_property

# kernels for Arm under an emulator, for WebAssembly under node, for CUDA by the compiler
other-targets:
    scripts/check-arm.sh
    scripts/check-wasm.sh
    scripts/check-cuda.sh

# completions and manual pages as the program prints them
generated:
    RAWLOOP_UPDATE=1 cargo test -p rawloop --test generated
