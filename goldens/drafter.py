"""The drafter golden: what Transformers' drafter says after given target states.

Its own candidate generator is driven, in the state it has after a prefill: the target has processed all accepted
tokens but the last, and nothing else. After a rejected draft it would also see keys of rejected tokens, which a
runtime should not copy, so no such step is recorded.

Target states are stored too (key and value of the two layers the drafter reads, final-norm rows), so that a drafter
can be checked alone.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import GenerationConfig
from transformers.generation.candidate_generator import SinglePositionMultiTokenCandidateGenerator

from goldens import capture

STEPS = 5
# Two the drafter is sure of, one past the window, and two where it is often wrong.
TASKS = ["story", "tool", "needle", "text_op", "proofread"]


@dataclass
class Sequence:
    """Tokens to draft along: `index` counts transcripts or prompts and names the tensors."""

    index: int
    task: str
    prompt: list[int]
    output: list[int]

    def accepted_counts(self, drafts: int) -> list[int]:
        """Evenly spread numbers of accepted tokens, each with at least `drafts` golden tokens after it."""
        first = len(self.prompt) + 1
        last = len(self.prompt) + len(self.output) - drafts
        count = min(STEPS, last - first + 1)
        return sorted({first + (last - first) * step // max(count - 1, 1) for step in range(count)})


def from_transcripts(records: list[dict], drafts: int) -> list[Sequence]:
    """One transcript a task: the first with room for every step; for `needle` the longest, to pass the window."""
    sequences = [
        Sequence(index, record["task"], record["prompt_ids"], record["output_ids"])
        for index, record in enumerate(records)
    ]
    chosen = []
    for task in TASKS:
        fitting = [one for one in sequences if one.task == task and len(one.output) > drafts + 1]
        chosen.append(max(fitting, key=lambda one: len(one.prompt)) if task == "needle" else fitting[0])
    return chosen


def from_prompts(entries: list[dict]) -> list[Sequence]:
    """The prompts of meta.json and their continuations."""
    return [Sequence(index, entry["name"], entry["ids"], entry["continuation"]) for index, entry in enumerate(entries)]


class Recorder:
    """Collects what goes into and out of the drafter's last projection while the generator runs."""

    def __init__(self, assistant):
        self.hidden, self.next_hidden = [], []
        assistant.post_projection.register_forward_hook(self._record)

    def _record(self, _module, arguments, output):
        self.hidden.append(arguments[0][0, 0].clone())
        self.next_hidden.append(output[0, 0].clone())

    def take(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Both lists stacked, [drafts x width], and forgotten."""
        taken = torch.stack(self.hidden), torch.stack(self.next_hidden)
        self.hidden.clear()
        self.next_hidden.clear()
        return taken


def draft(model, assistant, accepted: list[int]) -> tuple[list[int], list[float]]:
    """Drafted ids and their margins after `accepted` tokens, the last of which the target has not processed."""
    generator = SinglePositionMultiTokenCandidateGenerator(
        assistant_model=assistant,
        target_model_input_embeddings=model.get_input_embeddings(),
        generation_config=GenerationConfig(max_length=len(accepted) + 100),
    )
    candidates, logits = generator.get_candidates(
        torch.tensor([accepted]),
        model_kwargs={},
        model_outputs=capture.run(model, accepted[:-1]).outputs,
        is_first_iteration=False,
        n_last_matches=0,
    )
    return candidates[0, len(accepted) :].tolist(), capture.margins(logits[0])


def describe(model, assistant, recorder: Recorder, sequence: Sequence) -> tuple[dict, dict]:
    """The entry of one sequence in drafter.json, and its tensors."""
    drafts = assistant.generation_config.num_assistant_tokens
    ids = sequence.prompt + sequence.output
    counts = sequence.accepted_counts(drafts)
    steps, hidden, next_hidden = [], [], []
    for count in counts:
        drafted, margin = draft(model, assistant, ids[:count])
        target_says = ids[count : count + drafts]
        steps.append({"accepted": count, "drafts": drafted, "margins": margin, "target_says": target_says})
        for into, taken in zip((hidden, next_hidden), recorder.take(), strict=True):
            into.append(taken)
    target = capture.run(model, ids[: counts[-1] - 1])
    name = sequence.index
    tensors = {
        f"{name}.target_hidden": target.final_norm[[count - 2 for count in counts]],
        f"{name}.hidden": torch.stack(hidden),
        f"{name}.next_hidden": torch.stack(next_hidden),
    }
    for kind, (key, value) in target.shared.items():
        tensors |= {f"{name}.{kind}.key": key, f"{name}.{kind}.value": value}
    return {"transcript": name, "task": sequence.task, "ids": ids, "steps": steps}, tensors


def write(model, assistant, sequences: list[Sequence], hashes: dict, folder: Path) -> None:
    """Writes drafter.json and drafter.safetensors."""
    recorder = Recorder(assistant)
    entries, tensors = [], {}
    for sequence in sequences:
        entry, found = describe(model, assistant, recorder, sequence)
        entries.append(entry)
        tensors |= found
    save_file({key: value.contiguous() for key, value in tensors.items()}, folder / "drafter.safetensors")
    meta = hashes | {"drafts": assistant.generation_config.num_assistant_tokens, "transcripts": entries}
    (folder / "drafter.json").write_text(json.dumps(meta) + "\n")
    steps = [step for entry in entries for step in entry["steps"]]
    right = sum(step["drafts"][0] == step["target_says"][0] for step in steps)
    smallest = min(min(step["margins"]) for step in steps)
    print(f"drafter: {len(steps)} steps, first draft right in {right}, smallest margin {smallest:.4f}")
