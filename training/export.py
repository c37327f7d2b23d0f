"""Writes a trained model in the layout of the official mobile release, and reads it back to go on training."""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from training import model as shape
from training.quantise import SMALLEST_STEP, Head, QuantisedEmbedding, QuantisedLinear, codes

PREFIX = "model.language_model."
TABLES = ("embed_tokens", "embed_tokens_per_layer")
# Bit widths by module name, first match wins; the same form as the official quantization_config.
BITS = {
    r"^lm_head$": shape.EMBEDDING_BITS,
    r"language_model\.embed_tokens$": shape.EMBEDDING_BITS,
    r"language_model\.embed_tokens_per_layer$": shape.PER_LAYER_TABLE_BITS,
    r"language_model\.layers\.[0-4]\.mlp\.": shape.OWN_FFN_BITS,
    r"language_model\.layers\.\d+\.mlp\.": shape.SHARED_FFN_BITS,
    r"language_model\.layers\.\d+\.per_layer_input_gate$": shape.PER_LAYER_LINEAR_BITS,
    r"language_model\.layers\.\d+\.per_layer_projection$": shape.PER_LAYER_LINEAR_BITS,
    r"language_model\.layers\.\d+\.self_attn\.": shape.ATTENTION_BITS,
}
NOT_QUANTISED = [
    "model.vision_tower",
    "model.embed_vision",
    "model.audio_tower",
    "model.embed_audio",
    "model.language_model.per_layer_model_projection",
]


def pack(values: torch.Tensor, bits: int) -> torch.Tensor:
    """Codes along a row into bytes, first value in the low bits, stored unsigned. 8-bit codes stay int8."""
    if bits == 8:
        return values.to(torch.int8)
    unsigned = (values + 2 ** (bits - 1)).to(torch.uint8)
    per_byte = 8 // bits
    packed = torch.zeros_like(unsigned[:, ::per_byte])
    for place in range(per_byte):
        packed |= unsigned[:, place::per_byte] << (bits * place)
    return packed


def unpack(packed: torch.Tensor, bits: int) -> torch.Tensor:
    """The inverse of `pack`, as floats."""
    if bits == 8:
        return packed.float()
    places = [(packed.to(torch.int16) >> (bits * place)) & (2**bits - 1) for place in range(8 // bits)]
    return torch.stack(places, -1).flatten(-2).float() - 2 ** (bits - 1)


def _step(parameter: nn.Parameter) -> torch.Tensor:
    """A learned step as it is used: positive."""
    return parameter.detach().abs().clamp_min(SMALLEST_STEP).float()


def _stays_float(name: str) -> bool:
    return "norm" in name or "per_layer_model_projection" in name


def round_floats(model: shape.TinyModel) -> None:
    """Rounds what the release stores as bf16, so that the trainer's last loss is the checkpoint's."""
    for name, parameter in model.text.named_parameters():
        if _stays_float(name):
            parameter.copy_(parameter.to(torch.bfloat16).float())


def _linear_tensors(name: str, linear: QuantisedLinear) -> dict[str, torch.Tensor]:
    step = _step(linear.weight_step)
    return {
        f"{name}.weight": pack(codes(linear.weight.detach(), step, linear.limits), linear.bits),
        f"{name}.weight_scale": step,
        f"{name}.input_activation_scale": linear.shared_input_step.detach().abs().float().clone(),
        f"{name}.output_activation_scale": linear.output_step.detach().abs().float().clone(),
    }


def _head_tensors(head: Head) -> dict[str, torch.Tensor]:
    """The head's activation scales are 0: not calibrated, its activations stay float."""
    step = _step(head.weight_step)
    return {
        "lm_head.weight": pack(codes(head.weight.detach(), step, head.limits), shape.EMBEDDING_BITS),
        "lm_head.weight_scale": step,
        "lm_head.input_activation_scale": torch.zeros(()),
        "lm_head.output_activation_scale": torch.zeros(()),
    }


def _table_tensors(name: str, table: QuantisedEmbedding) -> dict[str, torch.Tensor]:
    step = _step(table.embedding_step)
    values = codes(table.in_blocks().detach(), step.unsqueeze(-1), table.limits)
    return {
        f"{name}.embedding_quantized": pack(values.view(len(values), -1), table.bits),
        f"{name}.embedding_scale": step,
    }


def _layer_tensors(model: shape.TinyModel, cache_scales: dict[int, tuple]) -> dict[str, torch.Tensor]:
    """Layer scalars, and KV scales, which a shared layer repeats from its producer as the release does."""
    tensors = {}
    for index, layer in enumerate(model.text.layers):
        name = f"{PREFIX}layers.{index}"
        key, value = cache_scales[shape.producer(index)]
        tensors[f"{name}.layer_scalar"] = layer.layer_scalar.detach().to(torch.bfloat16)
        tensors[f"{name}.self_attn.k_cache_scale"] = key.clone()
        tensors[f"{name}.self_attn.v_cache_scale"] = value.clone()
    return tensors


def checkpoint_tensors(model: shape.TinyModel, cache_scales: dict[int, tuple]) -> dict[str, torch.Tensor]:
    """Everything in model.safetensors."""
    tensors = _head_tensors(model.head)
    for name, module in model.text.named_modules():
        if isinstance(module, QuantisedLinear):
            tensors |= _linear_tensors(PREFIX + name, module)
    for name in TABLES:
        tensors |= _table_tensors(PREFIX + name, getattr(model.text, name))
    for name, parameter in model.text.named_parameters():
        if _stays_float(name):
            tensors[PREFIX + name] = parameter.detach().to(torch.bfloat16)
    return tensors | _layer_tensors(model, cache_scales)


def config() -> dict:
    """config.json."""
    return {
        "architectures": ["Gemma4ForConditionalGeneration"],
        "model_type": "gemma4",
        "dtype": "float32",
        "text_config": {**shape.text_config(), "model_type": "gemma4_text"},
        "vision_config": None,
        "audio_config": None,
        "tie_word_embeddings": False,
        "quantization_config": {
            "quant_method": "gemma",
            "num_bits": 4,
            "quantize_embeddings": True,
            "module_quant_configs": {pattern: {"num_bits": bits} for pattern, bits in BITS.items()},
            "modules_to_not_convert": NOT_QUANTISED,
        },
        "eos_token_id": [1, 106],
        "bos_token_id": 2,
        "pad_token_id": 0,
    }


def generation_config() -> dict:
    """Gemma 4's generation defaults."""
    return {
        "bos_token_id": 2,
        "eos_token_id": [1, 106, 50],
        "pad_token_id": 0,
        "do_sample": True,
        "temperature": 1.0,
        "top_k": 64,
        "top_p": 0.95,
    }


def write_json(path: Path, value: dict) -> None:
    """One-space indents, as the shipped files have."""
    path.write_text(json.dumps(value, indent=1))


def export(model: shape.TinyModel, folder: Path, cache_scales: dict[int, tuple]) -> None:
    """Writes weights and both configurations; the tokenizer is copied beside them by hand."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: tensor.cpu().contiguous() for name, tensor in checkpoint_tensors(model, cache_scales).items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    write_json(folder / "config.json", config())
    write_json(folder / "generation_config.json", generation_config())


def _restore_linear(linear: QuantisedLinear, name: str, tensors: dict[str, torch.Tensor]) -> None:
    step = tensors[f"{name}.weight_scale"]
    linear.weight_step.copy_(step)
    linear.weight.copy_(unpack(tensors[f"{name}.weight"], linear.bits) * step)
    if linear.owns_input_step:
        linear.input_step.copy_(tensors[f"{name}.input_activation_scale"])
    linear.output_step.copy_(tensors[f"{name}.output_activation_scale"])


def _restore_table(table: QuantisedEmbedding, name: str, tensors: dict[str, torch.Tensor]) -> None:
    step = tensors[f"{name}.embedding_scale"]
    values = unpack(tensors[f"{name}.embedding_quantized"], table.bits).view_as(table.in_blocks())
    table.embedding_step.copy_(step)
    table.weight.copy_((values * step.unsqueeze(-1)).view(len(values), -1))


@torch.no_grad()
def restore(model: shape.TinyModel, folder: Path) -> None:
    """Starts from an exported checkpoint. What lay between the codes is lost: weights are the dequantised codes."""
    tensors = load_file(folder / "model.safetensors")
    for name, module in model.text.named_modules():
        if isinstance(module, QuantisedLinear):
            _restore_linear(module, PREFIX + name, tensors)
    for name in TABLES:
        _restore_table(getattr(model.text, name), PREFIX + name, tensors)
    step = tensors["lm_head.weight_scale"]
    model.head.weight_step.copy_(step)
    model.head.weight.copy_(unpack(tensors["lm_head.weight"], shape.EMBEDDING_BITS) * step)
    for name, parameter in model.text.named_parameters():
        if _stays_float(name) and PREFIX + name in tensors:
            parameter.copy_(tensors[PREFIX + name].float())
    for index, layer in enumerate(model.text.layers):
        layer.layer_scalar.copy_(tensors[f"{PREFIX}layers.{index}.layer_scalar"].float())


# A state has this many files, so that none is large.
STATE_FILES = 2


def save_state(model: shape.TinyModel, folder: Path) -> None:
    """Everything that training goes on from, what lies between the codes too; matrices in float16."""
    folder.mkdir(parents=True, exist_ok=True)
    parameters = sorted(model.named_parameters(), key=lambda named: named[1].numel())
    for part in range(STATE_FILES):
        chosen = parameters[part::STATE_FILES]
        tensors = {
            name: (parameter.detach().half() if parameter.numel() > 10000 else parameter.detach()).cpu().contiguous()
            for name, parameter in chosen
        }
        save_file(tensors, folder / f"state{part}.safetensors")


@torch.no_grad()
def load_state(model: shape.TinyModel, folder: Path) -> None:
    """Goes on from a state; call `prepare` first."""
    parameters = dict(model.named_parameters())
    for part in range(STATE_FILES):
        for name, tensor in load_file(folder / f"state{part}.safetensors").items():
            parameters.pop(name).copy_(tensor.float())
    if parameters:
        raise ValueError(f"{folder} lacks {sorted(parameters)}")
