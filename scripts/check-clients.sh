#!/usr/bin/env bash
# Clients that people have (OpenAI's, LangChain's, LiteLLM, Ollama's) against `rawloop serve` with the small model, and a fuzzer that reads the
# server's description. Ends well with a message where Python, or what is needed from PyPI, cannot be had. Says at the end how many
# tests ran.
set -euo pipefail
cd "$(dirname "$0")/.."

skip() { echo "clients: skipped: $*"; exit 0; }

python3 -c 'import sys, venv; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || skip "Python 3.10 or newer with venv is not installed"
target=${CARGO_TARGET_DIR:-$PWD/target}
venv=$target/clients-venv
needs=('pytest>=8' 'openai>=2' 'langchain-openai>=1' 'litellm>=1.80' 'ollama>=0.6' 'schemathesis>=4,<5')
if ! grep -qxF "${needs[*]}" "$venv/installed" 2>/dev/null; then
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv" 2>/dev/null || skip "no environment can be made (python3 -m venv)"
    timeout 400 "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "${needs[@]}" || skip "PyPI cannot be reached"
    echo "${needs[*]}" > "$venv/installed"
fi

[ -z "${RAWLOOP_PACKAGES_ONLY:-}" ] || exit 0

# Built here, so that it is never an older one, unless another one is named.
if [ -z "${RAWLOOP_BIN:-}" ]; then
    cargo build --quiet --package rawloop
    export RAWLOOP_BIN=$target/debug/rawloop
fi

# What tools keep for the next run stays out of the tree.
export PYTHONPYCACHEPREFIX=$target/pycache HYPOTHESIS_STORAGE_DIRECTORY=$target/hypothesis

printf '\n== clients: tests\n'
log=$(mktemp -d)
trap 'rm -rf "$log"' EXIT
status=0
# What one version of a client deprecates in the next is none of these tests' business.
"$venv/bin/python" -m pytest -q -p no:warnings -p no:cacheprovider --junitxml "$log/tests.xml" tests/clients "$@" || status=$?
printf '\n'
python3 scripts/junit-summary.py "$log/tests.xml"
exit "$status"
