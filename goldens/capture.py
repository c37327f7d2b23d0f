"""Runs the target model once and keeps what flows between its layers.

Hooks are used instead of `output_hidden_states`, because that list replaces the last layer's output by the normed one
and never shows the per-layer inputs. Keys and values are taken where attention receives them.
"""

from dataclasses import dataclass
from unittest.mock import patch

import torch
from training.hf_check import STOP_IDS
from transformers.models.gemma4 import modeling_gemma4

eager_attention = modeling_gemma4.eager_attention_forward


@dataclass
class Forward:
    """One pass over S positions of a model with L layers, all float32.

    hidden:           [L + 1 x S x hidden], input of every layer, then the last layer's output before the final norm
    per_layer_inputs: [L x S x per-layer width], table row and projection combined, as each layer receives them
    final_norm:       [S x hidden]
    logits:           [S x vocabulary], before the soft cap
    capped:           [S x vocabulary], after it: what Transformers picks from
    key_values:       own layer -> (key, value) after norm and rope, each [kv heads x S x head dim]
    shared:           layer type -> the pair that layers without K/V, and the drafter, read
    """

    hidden: torch.Tensor
    per_layer_inputs: torch.Tensor
    final_norm: torch.Tensor
    logits: torch.Tensor
    capped: torch.Tensor
    key_values: dict[int, tuple[torch.Tensor, torch.Tensor]]
    shared: dict[str, tuple[torch.Tensor, torch.Tensor]]
    outputs: object


def run(model, ids: list[int]) -> Forward:
    """A full pass without a cache: every position sees its own past only. The model must use eager attention."""
    text = model.model.language_model
    hidden, per_layer_inputs, final, logits, key_values = [], [], [], [], {}

    def before_layer(_module, arguments):
        hidden.append(arguments[0][0].clone())
        per_layer_inputs.append(arguments[1][0].clone())

    def after_norm(_module, arguments, output):
        hidden.append(arguments[0][0].clone())
        final.append(output[0].clone())

    def attend(module, query, key, value, *arguments, **options):
        if not module.is_kv_shared_layer:
            key_values[module.layer_idx] = key[0].clone(), value[0].clone()
        return eager_attention(module, query, key, value, *arguments, **options)

    hooks = [layer.register_forward_pre_hook(before_layer) for layer in text.layers]
    hooks.append(text.norm.register_forward_hook(after_norm))
    hooks.append(model.lm_head.register_forward_hook(lambda _m, _a, output: logits.append(output[0].clone())))
    try:
        with torch.no_grad(), patch.object(modeling_gemma4, "eager_attention_forward", attend):
            outputs = model(
                input_ids=torch.tensor([ids]),
                use_cache=False,
                output_hidden_states=True,
                return_shared_kv_states=True,
            )
    finally:
        for hook in hooks:
            hook.remove()
    return Forward(
        hidden=torch.stack(hidden),
        per_layer_inputs=torch.stack(per_layer_inputs),
        final_norm=final[0],
        logits=logits[0],
        capped=outputs.logits[0],
        key_values=key_values,
        shared={kind: (key[0], value[0]) for kind, (key, value) in outputs.shared_kv_states.items()},
        outputs=outputs,
    )


def margins(logits: torch.Tensor) -> list[float]:
    """Distance from the highest to the second highest logit of each row."""
    top = logits.topk(2, dim=-1).values
    return (top[:, 0] - top[:, 1]).tolist()


def pick(forward: Forward) -> torch.Tensor:
    """The greedy choice at every position; the soft cap must not change it, since runtimes skip the cap."""
    chosen = forward.logits.argmax(-1)
    if not torch.equal(chosen, forward.capped.argmax(-1)):
        raise ValueError("the soft cap changes a greedy choice: the logits of this checkpoint are too large for it")
    return chosen


def continuation(model, ids: list[int], count: int) -> list[int]:
    """The next greedy ids: `count`, or up to the end of the answer, behind which a trained model says anything."""
    grown = list(ids)
    for _ in range(count):
        grown.append(int(pick(run(model, grown))[-1]))
        if grown[-1] in STOP_IDS:
            break
    return grown[len(ids) :]
