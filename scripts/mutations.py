#!/usr/bin/env python3
"""Plants one fault at a time and expects a named test to fail.

A gate that cannot fail proves nothing. Each line below is a fault somebody could make; the script copies the sources to a
scratch folder, plants it, runs the named test and ends with 1 where the test still passes.

usage: scripts/mutations.py [NAME ...]
"""

import functools
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# A build folder of its own, kept between runs.
ENVIRONMENT = os.environ | {"CARGO_TARGET_DIR": str(ROOT / "target/mutations")}
REF, SPEC = "crates/ref/src", "crates/spec/src"
TESTKIT = ["-p", "rawloop-testkit", "--test"]
# name: (file, what stands there, what is planted, the test that must fail)
FAULTS = {
    "scales-swapped": (
        f"{REF}/weights.rs",
        "input_scale: scales[0],\n            output_scale: scales[1],",
        "input_scale: scales[1],\n            output_scale: scales[0],",
        [*TESTKIT, "hidden_states", "tiny_layers_equal_transformers"],
    ),
    "rope-sign": (
        f"{REF}/attention.rs",
        "cosine[i] * x1 - sine[i] * x2",
        "cosine[i] * x1 + sine[i] * x2",
        ["-p", "rawloop-ref", "--lib", "rope_turns_each_pair"],
    ),
    "window-one-wider": (
        f"{REF}/forward.rs",
        "last.saturating_sub(self.geometry.window)",
        "last.saturating_sub(self.geometry.window + 1)",
        [*TESTKIT, "rules", "the_window_ends_exactly"],
    ),
    "window-one-narrower": (
        f"{REF}/forward.rs",
        "last.saturating_sub(self.geometry.window)",
        "last.saturating_sub(self.geometry.window - 1)",
        [*TESTKIT, "rules", "the_window_ends_exactly"],
    ),
    "tie-to-the-highest-id": (
        f"{REF}/head.rs",
        "if *logit > logits[best]",
        "if *logit >= logits[best]",
        ["-p", "rawloop-ref", "--lib", "equal_logits_pick_the_lowest_id"],
    ),
    "first-owner-instead-of-last": (
        f"{SPEC}/config.rs",
        "(0..own).rfind(|&p| kinds[p] == attention)",
        "(0..own).find(|&p| kinds[p] == attention)",
        [*TESTKIT, "rules", "sharing_layers_read_the_last_owner"],
    ),
    "soft-cap-missing": (
        f"{SPEC}/contract.rs",
        "    tanh(z / cap) * cap\n",
        "    z.clamp(-cap, cap)\n",
        ["-p", "rawloop-spec", "--lib", "tanh_and_soft_cap"],
    ),
    "half-away-from-zero": (
        f"{SPEC}/contract.rs",
        "(x / scale).round_ties_even()",
        "(x / scale).round()",
        ["-p", "rawloop-spec", "--lib", "quantise_rounds_half_to_even"],
    ),
    # The trained model's scalars are all 1; the synthetic ones' are not.
    "layer-scalar-forgotten": (
        f"{REF}/forward.rs",
        "*h *= weights.layer_scalar",
        "*h *= 1.0 + 0.0 * weights.layer_scalar",
        [*TESTKIT, "hidden_states", "e4b_like_layers_and_continuations_equal_transformers"],
    ),
    "table-row-unscaled": (
        f"{REF}/forward.rs",
        "(width as f64).sqrt() as f32",
        "1.0 + 0.0 * (width as f32)",
        [*TESTKIT, "hidden_states", "tiny_layers_equal_transformers"],
    ),
}


def killed(root: pathlib.Path, name: str) -> bool:
    """Whether the fault's test fails with the fault and passes without it."""
    file, before, after, test = FAULTS[name]
    path = root / file
    source = path.read_text()
    if source.count(before) != 1:
        sys.exit(f"{name}: {before!r} stands {source.count(before)} times in {file}; the list in this script is out of date")
    command = ["cargo", "test", "--quiet", *test]
    run = functools.partial(subprocess.run, command, cwd=root, env=ENVIRONMENT, capture_output=True, text=True)
    clean = run()
    if clean.returncode != 0 or "0 passed" in clean.stdout and "1 passed" not in clean.stdout:
        sys.exit(f"{name}: the test does not pass (or does not exist) without the fault:\n{clean.stdout}{clean.stderr}")
    path.write_text(source.replace(before, after))
    try:
        faulty = run()
    finally:
        path.write_text(source)
    if "error[" in faulty.stderr or "error: could not compile" in faulty.stderr:
        sys.exit(f"{name}: the planted fault does not compile:\n{faulty.stderr}")
    return faulty.returncode != 0


def main() -> None:
    """Plants the faults named on the command line, or all."""
    names = sys.argv[1:] or list(FAULTS)
    survived = []
    with tempfile.TemporaryDirectory() as scratch:
        root = pathlib.Path(scratch) / "rawloop"
        skip = shutil.ignore_patterns("target", ".git", ".venv", "corpus", "artifacts")
        # With new times, or the build would take a faulty leftover of the last run for current.
        shutil.copytree(ROOT, root, ignore=skip, copy_function=shutil.copy)
        for name in names:
            dead = killed(root, name)
            print(f"{'killed  ' if dead else 'SURVIVED'} {name}", flush=True)
            if not dead:
                survived.append(name)
    print(f"{len(names) - len(survived)} passed, {len(survived)} failed")
    sys.exit(1 if survived else 0)


if __name__ == "__main__":
    main()
