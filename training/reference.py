"""Loads official-layout checkpoints with Transformers in float32: the published reference the runtime is held to."""

import hashlib
from pathlib import Path

import torch
from safetensors import safe_open
from torch import nn
from transformers import Gemma4AssistantForCausalLM, Gemma4ForConditionalGeneration, logging

PER_LAYER_SCALE = "model.language_model.embed_tokens_per_layer.embedding_scale"


def file_sha256(path: Path) -> str:
    """The hash a golden names its checkpoint by."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def load_target(checkpoint: Path, attention: str = "sdpa") -> Gemma4ForConditionalGeneration:
    """The model of a checkpoint folder, packed weights kept, everything float in float32.

    Transformers 5.24 creates the per-layer table's scale as [vocabulary x 1] and so refuses the official
    [vocabulary x layers]; its forward handles both. The tensor is set by hand and nothing else may differ.
    """
    logging.set_verbosity_error()  # the mismatch is expected, and checked below
    logging.disable_progress_bar()
    model, report = Gemma4ForConditionalGeneration.from_pretrained(
        checkpoint,
        dtype=torch.float32,
        attn_implementation=attention,
        ignore_mismatched_sizes=True,
        output_loading_info=True,
    )
    mismatched = {name for name, *_ in report["mismatched_keys"]} - {PER_LAYER_SCALE}
    wrong = {
        "missing": report["missing_keys"],
        "unexpected": report["unexpected_keys"],
        "wrong shape": mismatched,
    }
    if any(wrong.values()):
        raise ValueError(f"{checkpoint} does not fit Transformers' Gemma 4: {wrong}")
    with safe_open(Path(checkpoint) / "model.safetensors", "pt") as file:
        scale = nn.Parameter(file.get_tensor(PER_LAYER_SCALE), requires_grad=False)
    model.model.language_model.embed_tokens_per_layer.embedding_scale = scale
    return model.eval().requires_grad_(False)


def load_assistant(folder: Path, drafts: int = 3) -> Gemma4AssistantForCausalLM:
    """The drafter of an assistant folder in float32. Transformers has no default for the number of drafts."""
    assistant = Gemma4AssistantForCausalLM.from_pretrained(folder, dtype=torch.float32)
    assistant.generation_config.num_assistant_tokens = drafts
    return assistant.eval().requires_grad_(False)


def ignore_activation_scales(model: nn.Module) -> None:
    """Turns activation quantisation off: a scale of 0 means uncalibrated, and the layer then rounds nothing."""
    for module in model.modules():
        for name in ("input_activation_scale", "output_activation_scale"):
            if hasattr(module, name):
                getattr(module, name).zero_()
