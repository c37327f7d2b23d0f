"""Writes the goldens of one checkpoint folder; README.md of this folder describes every file.

python -m goldens.make models/tiny/checkpoint goldens/tiny --questions 200 --assistant models/tiny/assistant
python -m goldens.make synthetic-checkpoint goldens/tiny-e4b
"""

import argparse
import json
from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer
from training.hf_check import scores, transcripts
from training.reference import file_sha256, load_assistant, load_target

from goldens import drafter, hidden

QUESTION_SEED = 4242
PROMPT_TASKS = ["text_op", "extract_json", "thinking"]


def provenance(checkpoint: Path) -> dict:
    """What every golden file names: the checkpoint and the versions that made it."""
    return {
        "checkpoint_sha256": file_sha256(checkpoint / "model.safetensors"),
        "config_sha256": file_sha256(checkpoint / "config.json"),
        "transformers": transformers.__version__,
        "torch": torch.__version__.split("+")[0],
        "arithmetic": "float32, eager attention",
    }


def write_transcripts(model, checkpoint: Path, made_with: dict, count: int, folder: Path) -> list[dict]:
    """Asks `count` held-out questions; the score of every task stands at the top as the baseline of the task gate."""
    tokenizer = Tokenizer.from_file(str(checkpoint / "tokenizer.json"))
    records = transcripts(model, tokenizer, QUESTION_SEED, count)
    right = sum(record["ok"] for record in records)
    head = made_with | {"seed": QUESTION_SEED, "right": right, "asked": count, "tasks": scores(records)}
    lines = ",\n".join(json.dumps(record) for record in records)
    whole = json.dumps(head | {"transcripts": []})[: -len("]}")] + f"\n{lines}\n]}}\n"
    (folder / "transcripts.json").write_text(whole)
    print(f"transcripts.json: {right} of {count} right")
    return records


def prompts_of(config, records: list[dict], length: int) -> dict[str, list[int]]:
    """Prompts from the transcripts where there are any, else random ids."""
    if records:
        return hidden.transcript_prompts(records, PROMPT_TASKS, length)
    return hidden.random_prompts(config.vocab_size, config.sliding_window, length)


def main() -> None:
    """Loads the checkpoint once and writes all files."""
    parser = argparse.ArgumentParser(description="Write what Transformers says in float32 about a checkpoint.")
    parser.add_argument("checkpoint", type=Path, help="folder in the official mobile layout")
    parser.add_argument("out", type=Path, help="folder to write into")
    parser.add_argument("--questions", type=int, default=0, help="held-out questions to ask (needs tokenizer.json)")
    parser.add_argument("--assistant", type=Path, help="drafter folder: also record drafts")
    parser.add_argument("--length", type=int, default=40, help="about how many positions a hidden-state prompt has")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    # One thread means one order of float sums; for models this narrow it is also the faster choice.
    torch.set_num_threads(1)
    model = load_target(options.checkpoint, attention="eager")
    config = model.config.get_text_config()
    made_with = provenance(options.checkpoint)
    records = []
    if options.questions:
        records = write_transcripts(model, options.checkpoint, made_with, options.questions, options.out)
    entries = hidden.write(model, prompts_of(config, records, options.length), options.out)
    geometry = {
        "layers": config.num_hidden_layers,
        "hidden": config.hidden_size,
        "per_layer_width": config.hidden_size_per_layer_input,
        "vocabulary": config.vocab_size,
        "window": config.sliding_window,
    }
    meta = made_with | {"geometry": geometry, "prompts": entries}
    (options.out / "meta.json").write_text(json.dumps(meta) + "\n")
    if options.assistant:
        hashes = made_with | {"assistant_sha256": file_sha256(options.assistant / "model.safetensors")}
        assistant = load_assistant(options.assistant)
        drafts = assistant.generation_config.num_assistant_tokens
        along = drafter.from_transcripts(records, drafts) if records else drafter.from_prompts(entries)
        drafter.write(model, assistant, along, hashes, options.out)


if __name__ == "__main__":
    main()
