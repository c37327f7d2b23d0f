#!/usr/bin/env bash
# The Python package: its wheel, built and installed into an environment of its own, and its tests; with Ray, where that can be
# had, the examples on two workers. Ends well with a message where Python, or what is needed from PyPI, cannot be had. Says at the end
# how many tests ran.
set -euo pipefail
cd "$(dirname "$0")/.."

skip() { echo "python: skipped: $*"; exit 0; }

python3 -c 'import sys, venv; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || skip "Python 3.10 or newer with venv is not installed"

# Another folder for the build is taken as it is; the tests' dependencies are of the environment, not of the checkout.
target=${CARGO_TARGET_DIR:-$PWD/target}
venv=$target/python-venv
[ -x "$venv/bin/python" ] || python3 -m venv "$venv" 2>/dev/null || skip "no environment can be made (python3 -m venv)"

# Installs once: a name of the group in a file of the environment says what is there.
install() {
    local group=$1 seconds=$2
    shift 2
    grep -qxF "$group: $*" "$venv/installed" 2>/dev/null && return
    timeout "$seconds" "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@" || return 1
    echo "$group: $*" >> "$venv/installed"
}
install tests 300 'maturin>=1.9.4,<2' 'pytest>=8' 'pydantic>=2' 'mypy>=1.10' typing-extensions || skip "PyPI cannot be reached"

# What tools keep for the next run stays out of the tree.
export PYTHONPYCACHEPREFIX=$target/pycache MYPY_CACHE_DIR=$target/mypy HYPOTHESIS_STORAGE_DIRECTORY=$target/hypothesis
ray=
[ "${RAWLOOP_RAY:-1}" != 1 ] || ! install ray 400 'ray[data,serve]>=2.40' || ray=1
[ -z "${RAWLOOP_PACKAGES_ONLY:-}" ] || exit 0

printf '\n== python: wheel\n'
log=$(mktemp -d)
trap 'rm -rf "$log"' EXIT
# As anybody installs it, but in the profile of the tests, whose dependencies are built already.
PATH=$venv/bin:$PATH CARGO_TARGET_DIR=$target python -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps \
    --no-build-isolation --config-settings 'build-args=--profile dev --auditwheel skip' ./python
# The answers are compared with the program's, which is built here, so that it is never an older one, unless another one is named.
if [ -z "${RAWLOOP_BIN:-}" ]; then
    cargo build --quiet --package rawloop
    export RAWLOOP_BIN=$target/debug/rawloop
fi

printf '\n== python: tests\n'
status=0
(cd python && "$venv/bin/python" -m pytest -q --junitxml "$log/tests.xml") || status=$?

if [ -n "$ray" ]; then
    printf '\n== python: Ray on two workers\n'
    (cd python && "$venv/bin/python" -m pytest -q -p no:warnings --junitxml "$log/ray.xml" examples) || status=$?
else
    echo "python: Ray cannot be installed: its examples are skipped"
fi

printf '\n'
"$venv/bin/python" scripts/junit-summary.py "$log"/*.xml
exit "$status"
