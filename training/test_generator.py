"""The generator's output is pinned: a corpus is named by its seed, so a seed must keep giving the same samples.

The hashes were computed before the generator took its present form; a change of wording, order or word list shows
here and means a new corpus (and a new checkpoint, or a note that the shipped one saw other data).

    python -m unittest training.test_generator
"""

import hashlib
import itertools
import json
import unittest

from training.chatdata import TASKS, held_out, samples
from training.turns import render


def digest(seed: int, split: str, count: int = 200) -> str:
    """A hash of the first samples, turns and keys included."""
    total = hashlib.sha256()
    for sample in itertools.islice(samples(seed, split), count):
        total.update(json.dumps(sample, separators=(",", ":")).encode() + b"\n")
    return total.hexdigest()


class GeneratorTest(unittest.TestCase):
    def test_training_samples_are_pinned(self):
        expected = "c3da597cc8044d55cce103044b7d8d97cd5e00117170b9d99ec5f804ed3fe3bf"
        self.assertEqual(digest(1000, "train"), expected)

    def test_held_out_samples_are_pinned(self):
        expected = "00fbab2a2269e4fd43a94289fd5a3b0723f4c021a095fe1a76889665cb8544db"
        self.assertEqual(digest(4242, "test"), expected)

    def test_every_task_appears_and_its_answer_contains_its_key(self):
        seen = set()
        for task, turns, key in itertools.islice(samples(7, "train"), 2000):
            seen.add(task)
            self.assertIn(key, render(turns), task)
        self.assertEqual(seen, set(TASKS))

    def test_open_tasks_keep_the_splits_apart(self):
        for split, expected in (("train", False), ("test", True)):
            for task, turns, _ in itertools.islice(samples(11, split), 2000):
                if task in ("arith", "word_problem", "needle", "tool", "thinking"):
                    self.assertEqual(held_out(turns), expected, task)


if __name__ == "__main__":
    unittest.main()
