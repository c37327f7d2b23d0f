"""The hidden-state golden: for a few prompts, everything needed to check one layer at a time.

A layer is checked from its golden *input* and golden keys and values, so an error in layer 3 is not blamed on layer 20,
nor one at position 4 on position 40. (One value code of one position that rounds the other way is read by all later
positions of its layer and of every layer that shares its K/V.)
"""

from pathlib import Path
from random import Random

import torch
from safetensors.torch import save_file

from goldens import capture

CONTINUATION = 32
# How far the second random prompt goes past the sliding window.
PAST_WINDOW = 8
# Tensor bytes in one committed file.
LARGEST_FILE = 960_000


def random_prompts(vocabulary: int, window: int, length: int, seed: int = 1) -> dict[str, list[int]]:
    """Two prompts of random ids: a short one, and one longer than the sliding window."""
    random = Random(seed)
    lengths = {"short": length, "past_window": window + PAST_WINDOW}
    return {name: [random.randrange(vocabulary) for _ in range(count)] for name, count in lengths.items()}


def transcript_prompts(records: list[dict], tasks: list[str], length: int) -> dict[str, list[int]]:
    """The first transcript of each named task whose prompt is nearest to a length."""
    prompts = {}
    for task in tasks:
        found = [record["prompt_ids"] for record in records if record["task"] == task]
        prompts[task] = min(found, key=lambda ids: abs(len(ids) - length))
    return prompts


def describe(model, name: str, ids: list[int]) -> tuple[dict, dict[str, torch.Tensor]]:
    """The entry of one prompt in meta.json, and its tensors in layer order."""
    forward = capture.run(model, ids)
    rows = [len(ids) // 2, len(ids) - 1]
    generated = capture.continuation(model, ids, CONTINUATION)
    whole = capture.run(model, ids + generated)
    steps = slice(len(ids) - 1, len(ids) + len(generated) - 1)
    if capture.pick(whole)[steps].tolist() != generated:
        raise ValueError(f"prompt {name}: one pass over prompt and continuation picks other tokens")
    entry = {
        "name": name,
        "ids": ids,
        "continuation": generated,
        "margins": capture.margins(whole.logits[steps]),
        "logit_rows": rows,
    }
    tensors = {}
    for layer, per_layer_input in enumerate(forward.per_layer_inputs):
        tensors[f"layers.{layer}.input"] = forward.hidden[layer]
        tensors[f"layers.{layer}.per_layer_input"] = per_layer_input
        if layer in forward.key_values:
            tensors[f"layers.{layer}.key"], tensors[f"layers.{layer}.value"] = forward.key_values[layer]
    tensors |= {
        "last_layer_output": forward.hidden[-1],
        "final_norm": forward.final_norm,
        "logits": forward.logits[rows],
    }
    return entry, tensors


def shard(tensors: dict[str, torch.Tensor]) -> list[dict[str, torch.Tensor]]:
    """Splits into groups below the limit on a committed file, order kept."""
    groups, size = [{}], 0
    for name, tensor in tensors.items():
        if size + tensor.nbytes > LARGEST_FILE:
            groups.append({})
            size = 0
        groups[-1][name] = tensor.contiguous()
        size += tensor.nbytes
    return groups


def write(model, prompts: dict[str, list[int]], folder: Path) -> list[dict]:
    """Writes `hidden-<prompt>-<part>.safetensors` and returns the prompts' entries for meta.json."""
    entries = []
    for name, ids in prompts.items():
        entry, tensors = describe(model, name, ids)
        entry["files"] = []
        for part, group in enumerate(shard(tensors)):
            entry["files"].append(f"hidden-{name}-{part}.safetensors")
            save_file(group, folder / entry["files"][-1])
        entries.append(entry)
        print(f"{name}: {len(ids)} positions, smallest margin {min(entry['margins']):.4f}")
    return entries
