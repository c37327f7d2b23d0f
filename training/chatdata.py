"""Endless synthetic chat samples from a seed.

A corpus is its seed: nothing is stored. A sample belongs to the held-out split when a hash of its user text says so,
which keeps test questions out of training without a list of either.

    python -m training.chatdata --seed 4242 --split test --count 3
"""

import argparse
import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping
from random import Random

from training import operations, tasks, tools
from training.turns import Turn, render
from training.words import SYSTEM_PROMPTS

# Task -> (maker, weight in the training split). The test split draws tasks with equal probability.
TASKS = {
    "arith": (tasks.arithmetic, 14),
    "word_problem": (tasks.word_problem, 18),
    "capital": (tasks.capital, 6),
    "opposite": (tasks.opposite, 3),
    "translate": (tasks.translate, 5),
    "text_op": (tasks.text_operation, 24),
    "extract_json": (tasks.extract_json, 8),
    "summarize": (tasks.summarize, 6),
    "sentiment": (tasks.sentiment, 3),
    "story": (tasks.story, 5),
    "chitchat": (tasks.small_talk, 7),
    "needle": (tasks.needle, 6),
    "tool": (tools.one_call, 18),
    "two_calls": (tools.two_calls, 4),
    "proofread": (tasks.proofread, 14),
    "unknown": (tasks.unknown, 5),
    "thinking": (tasks.thinking, 6),
    "several": (tasks.several, 26),
    "op_summarize": (operations.summarize, 20),
    "op_extract": (operations.extract, 13),
    "op_translate": (operations.translate, 9),
    "op_proofread": (operations.proofread, 14),
    "op_rewrite": (operations.rewrite, 6),
    "op_classify": (operations.classify, 7),
    "op_sentiment": (operations.sentiment, 4),
    "op_answer": (operations.answer_from_text, 14),
    "op_keywords": (operations.keywords, 11),
    "op_title": (operations.title, 8),
    "op_entities": (operations.entities, 16),
    "op_compare": (operations.compare, 14),
    "op_tidy": (operations.tidy_transcript, 8),
}

# What is trained for the sake of another task, and not asked: in the training split only.
EXERCISES = {"op_answers": (operations.answers_from_text, 60)}

# Tasks with so few questions that holding some out would remove facts from training: they share both splits.
CLOSED_TASKS = {"capital", "opposite", "sentiment", "chitchat", "translate", "op_translate"}


def held_out(turns: list[Turn]) -> bool:
    """True for the 1 in 32 conversations that never appear in training."""
    question = "\n".join(text for role, text in turns if role == "user")
    return hashlib.sha256(question.encode()).digest()[0] < 8


def samples(
    seed: int, split: str, favoured: Mapping[str, float] | None = None
) -> Iterator[tuple[str, list[Turn], str]]:
    """Yields `(task, turns, key)` forever; `split` is "train" or "test". `favoured` replaces weights of tasks."""
    random = Random(seed)
    makers = {**TASKS, **EXERCISES} if split == "train" else TASKS
    names = list(makers)
    weights = [(favoured or {}).get(task, weight) for task, (_, weight) in makers.items()]
    while True:
        task = random.choices(names, weights)[0] if split == "train" else random.choice(names)
        maker, may_be_held_out = makers[task][0], task not in CLOSED_TASKS
        turns, key = maker(random)
        if turns[0][0] == "user" and random.random() < 0.2:
            turns = [("system", random.choice(SYSTEM_PROMPTS)), *turns]
        while split == "test" and may_be_held_out and not held_out(turns):
            turns, key = maker(random)
        if split == "test" or not may_be_held_out or not held_out(turns):
            yield task, turns, key


def questions(seed: int, each: int) -> Iterator[dict]:
    """So many held-out questions of every task, as `rawloop eval` reads them."""
    asked = dict.fromkeys(TASKS, 0)
    for task, turns, key in samples(seed, "test"):
        if asked[task] < each:
            asked[task] += 1
            last = max(index for index, (role, _) in enumerate(turns) if role == "model")
            yield {"task": task, "prompt": render(turns[:last]) + "<|turn>model\n", "key": key, "want": turns[last][1]}
        if min(asked.values()) == each:
            return


def main() -> None:
    """Prints samples, to look at what a seed gives, or questions to ask."""
    parser = argparse.ArgumentParser(description="Print synthetic chat samples.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--split", choices=["train", "test"], default="train")
    parser.add_argument("--count", type=int, default=5)
    parser.add_argument("--each", type=int, help="print so many held-out questions of every task for `rawloop eval`")
    options = parser.parse_args()
    if options.each:
        for question in questions(options.seed, options.each):
            print(json.dumps(question))
        return
    for task, turns, key in itertools.islice(samples(options.seed, options.split), options.count):
        print(f"--- {task}, key {key!r}\n{render(turns)}")


if __name__ == "__main__":
    main()
