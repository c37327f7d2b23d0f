"""Asks a checkpoint held-out questions under Transformers, greedily, and counts the right answers.

python -m training.hf_check --model models/tiny/checkpoint --count 50
"""

import argparse
import collections
import itertools
import json
from pathlib import Path

import torch
from tokenizers import Tokenizer

from training.chatdata import samples
from training.reference import ignore_activation_scales, load_target
from training.turns import render

# <eos>, the end of a turn, and the start of a tool result: the stop set of Gemma 4's generation defaults.
STOP_IDS = [1, 106, 50]
LONGEST_ANSWER = 160


def answer(model, prompt_ids: list[int]) -> list[int]:
    """The ids the model adds to a prompt, the stop token included."""
    ids = torch.tensor([prompt_ids], device=model.device)
    with torch.no_grad():
        output = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=LONGEST_ANSWER,
            do_sample=False,
            eos_token_id=STOP_IDS,
            pad_token_id=0,
        )
    return output[0, len(prompt_ids) :].tolist()


def transcripts(model, tokenizer: Tokenizer, seed: int, count: int) -> list[dict]:
    """One record a question: prompt, ids, the answer, the wanted answer, and whether the key is in the answer.

    The last model turn of a sample is what is asked for; everything before it is the prompt.
    """
    records = []
    for task, turns, key in itertools.islice(samples(seed, "test"), count):
        last = max(index for index, (role, _) in enumerate(turns) if role == "model")
        prompt = render(turns[:last]) + "<|turn>model\n"
        prompt_ids = tokenizer.encode(prompt, add_special_tokens=False).ids
        output_ids = answer(model, prompt_ids)
        text = tokenizer.decode(output_ids, skip_special_tokens=False)
        records.append(
            {
                "task": task,
                "prompt": prompt,
                "prompt_ids": prompt_ids,
                "output_ids": output_ids,
                "text": text,
                "want": turns[last][1],
                "key": key,
                "ok": key in text,
            }
        )
    return records


def scores(records: list[dict]) -> dict[str, list[int]]:
    """Task -> [right, asked], in alphabetical order."""
    right, asked = collections.Counter(), collections.Counter()
    for record in records:
        asked[record["task"]] += 1
        right[record["task"]] += record["ok"]
    return {task: [right[task], asked[task]] for task in sorted(asked)}


def main() -> None:
    """Loads, asks, prints the score of every task."""
    parser = argparse.ArgumentParser(description="Score a checkpoint on held-out questions under Transformers.")
    parser.add_argument("--model", type=Path, required=True, help="checkpoint folder")
    parser.add_argument("--tokenizer", type=Path, help="default: tokenizer.json in the checkpoint folder")
    parser.add_argument("--count", type=int, default=100, help="questions to ask")
    parser.add_argument("--seed", type=int, default=4242)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--float-activations", action="store_true", help="ignore the activation scales")
    parser.add_argument("--dump", type=Path, help="write the transcripts to this JSON file")
    options = parser.parse_args()
    tokenizer = Tokenizer.from_file(str(options.tokenizer or options.model / "tokenizer.json"))
    model = load_target(options.model).to(options.device)
    if options.float_activations:
        ignore_activation_scales(model)
    records = transcripts(model, tokenizer, options.seed, options.count)
    for task, (right, asked) in scores(records).items():
        print(f"{task:14} {right:3} of {asked}")
    print(f"{'all':14} {sum(record['ok'] for record in records):3} of {len(records)}")
    if options.dump:
        options.dump.write_text(json.dumps(records, indent=0) + "\n")


if __name__ == "__main__":
    main()
