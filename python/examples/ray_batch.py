"""Answers a file of prompts on many workers, with Ray Data.

Each line of the input is a JSON object with ``prompt``; each line of the output is the same object with ``answer`` and ``finish``, in
the order of the input. Every worker is a process with a session of its own, and every prompt has a seed of its own place, so
the answers are those of one process, whatever the number of workers:

    python ray_batch.py prompts.jsonl answers.jsonl --workers 2 --model e2b.rlp
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
from typing import Any

import ray

import rawloop


class Answerer:
    """A worker: opens the model once, and answers batches of prompts."""

    def __init__(self, model: str | None, threads: int, settings: dict[str, Any]) -> None:
        self.chat = rawloop.ChatSession(model, threads=threads, **settings)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        answers = []
        for place, prompt in zip(batch["place"], batch["prompt"]):
            # What is asked next must not depend on what was asked before.
            self.chat.clear()
            answers.append(self.chat.respond(str(prompt), seed=int(place)))
        batch["answer"] = [answer.text for answer in answers]
        batch["finish"] = [answer.finish for answer in answers]
        batch["worker"] = [os.getpid()] * len(answers)
        return batch


def answer_all(
    prompts: list[str], *, workers: int, model: str | None = None, threads: int = 1, batch: int = 8, **settings: Any
) -> list[dict[str, Any]]:
    """Rows with prompt, answer, finish and the worker's process, in the order of the prompts."""
    rows = ray.data.from_items([{"place": place, "prompt": prompt} for place, prompt in enumerate(prompts)])
    answered = rows.repartition(max(workers, -(-len(prompts) // batch))).map_batches(
        Answerer,
        fn_constructor_args=(model, threads, settings),
        batch_size=batch,
        compute=ray.data.ActorPoolStrategy(size=workers),
        num_cpus=threads,
    )
    return sorted(answered.take_all(), key=lambda row: row["place"])


def main() -> None:
    """Reads, answers, writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="threads of each worker")
    parser.add_argument("--model", help="a pack; the small model of the package without one")
    parser.add_argument("--max-tokens", type=int, default=256)
    arguments = parser.parse_args()
    entries = [json.loads(line) for line in arguments.input.read_text(encoding="utf-8").splitlines() if line.strip()]
    rows = answer_all(
        [entry["prompt"] for entry in entries],
        workers=arguments.workers,
        threads=arguments.threads,
        model=arguments.model,
        max_tokens=arguments.max_tokens,
    )
    with arguments.output.open("w", encoding="utf-8") as output:
        for entry, row in zip(entries, rows):
            entry.update(answer=row["answer"], finish=row["finish"])
            output.write(json.dumps(entry, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
