"""The generator's output is pinned: a corpus is named by its seed, so a seed must keep giving the same samples.

A change of wording, order or word list shows here and means a new corpus (and a new checkpoint, or a note that the
shipped one saw other data).

    python -m unittest training.test_generator
"""

import hashlib
import itertools
import json
import unittest

from training.chatdata import EXERCISES, TASKS, held_out, questions, samples
from training.operations import PROMPTS
from training.turns import render


def digest(seed: int, split: str, count: int = 200) -> str:
    """A hash of the first samples, turns and keys included."""
    total = hashlib.sha256()
    for sample in itertools.islice(samples(seed, split), count):
        total.update(json.dumps(sample, separators=(",", ":")).encode() + b"\n")
    return total.hexdigest()


class GeneratorTest(unittest.TestCase):
    def test_training_samples_are_pinned(self):
        expected = "9f07683fe0444b0cb2c7d65484fd84814244f1b0a79beca1fcc80f1d172adae5"
        self.assertEqual(digest(1000, "train"), expected)

    def test_held_out_samples_are_pinned(self):
        expected = "30337a15ec5fbb30f185feea185955778c117ac81ef84fa51658fb47110fe37a"
        self.assertEqual(digest(4242, "test"), expected)

    def test_every_task_appears_and_its_answer_contains_its_key(self):
        seen = set()
        for task, turns, key in itertools.islice(samples(7, "train"), 2000):
            seen.add(task)
            self.assertIn(key, render(turns), task)
        self.assertEqual(seen, {*TASKS, *EXERCISES})

    def test_every_operation_has_a_task_with_its_own_prompt(self):
        asked = {}
        for task, turns, _ in itertools.islice(samples(9, "train"), 3000):
            if task.startswith("op_"):
                asked.setdefault(task, []).append(dict(turns)["user"])
        for name, entry in PROMPTS.items():
            heads = [each["text"].split("{")[0] for each in entry["prompts"]]
            for head in heads:
                found = any(question.startswith(head) for each in asked.values() for question in each)
                self.assertTrue(found, f"{name}: {head}")

    def test_questions_are_so_many_of_each_task(self):
        asked = [question["task"] for question in questions(3, 2)]
        self.assertEqual(sorted(asked), sorted(list(TASKS) * 2))

    def test_open_tasks_keep_the_splits_apart(self):
        for split, expected in (("train", False), ("test", True)):
            for task, turns, _ in itertools.islice(samples(11, split), 2000):
                if task in ("arith", "word_problem", "needle", "tool", "thinking"):
                    self.assertEqual(held_out(turns), expected, task)


if __name__ == "__main__":
    unittest.main()
