"""Endless synthetic chat samples from a seed.

A corpus is its seed: nothing is stored. A sample belongs to the held-out split when a hash of its user text says so,
which keeps test questions out of training without a list of either.

    python -m training.chatdata --seed 4242 --split test --count 3
"""

import argparse
import hashlib
import itertools
from collections.abc import Iterator
from random import Random

from training import tasks, tools
from training.turns import Turn, render
from training.words import SYSTEM_PROMPTS

# Task -> (maker, weight in the training split). The test split draws tasks with equal probability.
TASKS = {
    "arith": (tasks.arithmetic, 16),
    "word_problem": (tasks.word_problem, 20),
    "capital": (tasks.capital, 6),
    "opposite": (tasks.opposite, 3),
    "translate": (tasks.translate, 5),
    "text_op": (tasks.text_operation, 12),
    "extract_json": (tasks.extract_json, 8),
    "summarize": (tasks.summarize, 6),
    "sentiment": (tasks.sentiment, 3),
    "story": (tasks.story, 5),
    "chitchat": (tasks.small_talk, 6),
    "needle": (tasks.needle, 6),
    "tool": (tools.one_call, 10),
    "two_calls": (tools.two_calls, 3),
    "proofread": (tasks.proofread, 7),
    "unknown": (tasks.unknown, 5),
    "thinking": (tasks.thinking, 6),
}

# Tasks with so few questions that holding some out would remove facts from training: they share both splits.
CLOSED_TASKS = {"capital", "opposite", "sentiment", "chitchat", "translate"}


def held_out(turns: list[Turn]) -> bool:
    """True for the 1 in 32 conversations that never appear in training."""
    question = "\n".join(text for role, text in turns if role == "user")
    return hashlib.sha256(question.encode()).digest()[0] < 8


def samples(seed: int, split: str) -> Iterator[tuple[str, list[Turn], str]]:
    """Yields `(task, turns, key)` forever; `split` is "train" or "test"."""
    random = Random(seed)
    names = list(TASKS)
    weights = [weight for _, weight in TASKS.values()]
    while True:
        task = random.choices(names, weights)[0] if split == "train" else random.choice(names)
        maker, may_be_held_out = TASKS[task][0], task not in CLOSED_TASKS
        turns, key = maker(random)
        if turns[0][0] == "user" and random.random() < 0.2:
            turns = [("system", random.choice(SYSTEM_PROMPTS)), *turns]
        while split == "test" and may_be_held_out and not held_out(turns):
            turns, key = maker(random)
        if split == "test" or not may_be_held_out or not held_out(turns):
            yield task, turns, key


def main() -> None:
    """Prints samples, to look at what a seed gives."""
    parser = argparse.ArgumentParser(description="Print synthetic chat samples.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--split", choices=["train", "test"], default="train")
    parser.add_argument("--count", type=int, default=5)
    options = parser.parse_args()
    for task, turns, key in itertools.islice(samples(options.seed, options.split), options.count):
        print(f"--- {task}, key {key!r}\n{render(turns)}")


if __name__ == "__main__":
    main()
