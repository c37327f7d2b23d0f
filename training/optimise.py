"""The training loop and the loss: what both phases of the target and the drafter share."""

import math
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F

# Weight of tokens the model does not write. Not zero: questions teach the language the answers are made of.
OTHER_TOKENS = 0.05


def next_token_loss(logits: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The loss to minimise, and the one to show (tokens the model writes only)."""
    targets = ids[:, 1:]
    each = F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), targets.reshape(-1), reduction="none").view_as(targets)
    written = weights[:, 1:].float()
    other = OTHER_TOKENS * (1 - written) * (targets != 0)
    total = written + other
    return (each * total).sum() / total.sum(), (each * written).sum() / written.sum()


WARM_UP = 0.05
# Steps before the clock starts: the first ones compile kernels and find memory.
FIRST_STEPS = 5
SAVE_SECONDS = 60


def rate_factor(done: float, last: float) -> float:
    """Linear warm-up over a twentieth of the way, then a cosine down to `last`; `done` is the share behind."""
    cosine = last + (1 - last) * 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))
    return min(1.0, done / WARM_UP + 0.01) * cosine


def fit(
    groups: list[dict],
    loss: Callable[[], tuple[torch.Tensor, torch.Tensor]],
    *,
    steps: int,
    rate: float,
    device: str,
    label: str,
    mixed_precision: bool,
    seconds: float | None = None,
    last: float = 0.02,
    save: Callable[[], None] | None = None,
) -> None:
    """Runs AdamW for some steps, or for some time where `seconds` says so: machines are lent by the minute.

    A group's `scale` multiplies the learning rate, which ends at the share `last` of it; `loss` draws its own batch.
    `save` is called every minute.
    """
    fused = device == "cuda"
    optimiser = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.98), weight_decay=0.01, fused=fused)
    parameters = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    start = time.time()
    step, done, saved = 0, 0.0, time.time()
    while done < 1.0:
        for group in optimiser.param_groups:
            group["lr"] = group.get("scale", 1.0) * rate * rate_factor(done, last)
        with torch.autocast(device, dtype=torch.bfloat16, enabled=mixed_precision):
            value, shown = loss()
        optimiser.zero_grad(set_to_none=True)
        value.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
        step += 1
        if step == FIRST_STEPS:
            start = time.time()
        done = step / steps if seconds is None else (time.time() - start) / seconds * (step >= FIRST_STEPS)
        if step % 100 == 1 or done >= 1.0:
            print(f"{label} {step}, {done:.0%}: {shown.item():.4f}, {time.time() - start:.0f} s", flush=True)
        if save and time.time() - saved > SAVE_SECONDS:
            save()
            saved = time.time()
