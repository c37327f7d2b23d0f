"""The training loop and the loss: what both phases of the target and the drafter share."""

import math
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F

from training.replay import captured

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
    draw: Callable[[], object],
    *,
    steps: int,
    rate: float,
    device: str,
    label: str,
    mixed_precision: bool,
    seconds: float | None = None,
    last: float = 0.02,
    save: Callable[[], None] | None = None,
    replay: bool = False,
) -> None:
    """Runs AdamW for some steps, or for some time where `seconds` says so: machines are lent by the minute.

    A group's `scale` multiplies the learning rate, which ends at the share `last` of it; `draw` makes the next batch,
    which `loss` reads. `save` is called every minute. With `replay` a step is one CUDA graph.
    """
    for group in groups:
        group["lr"] = torch.tensor(rate, device=device) if replay else rate
    fused = device == "cuda"
    optimiser = torch.optim.AdamW(groups, betas=(0.9, 0.98), weight_decay=0.01, fused=fused, capturable=replay)
    parameters = [parameter for group in optimiser.param_groups for parameter in group["params"]]

    def step() -> torch.Tensor:
        with torch.autocast(device, dtype=torch.bfloat16, enabled=mixed_precision):
            value, shown = loss()
        optimiser.zero_grad(set_to_none=True)
        value.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
        return shown.detach()

    def set_rate(done: float) -> None:
        for group in optimiser.param_groups:
            now = group.get("scale", 1.0) * rate * rate_factor(done, last)
            if replay:
                group["lr"].fill_(now)
            else:
                group["lr"] = now

    warm = FIRST_STEPS + replay
    stream = torch.cuda.Stream() if replay else None
    if stream:
        stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        run, count, done, saved = step, 0, 0.0, time.time()
        start = saved
        while done < 1.0:
            set_rate(done)
            draw()
            if replay and count == FIRST_STEPS:
                run, shown = captured(step, lambda: loss()[0])
            else:
                shown = run()
            count += 1
            if stream:
                # Replayed steps would queue up, and the clock run ahead of them.
                stream.synchronize()
            if count == warm:
                start = time.time()
            elapsed = time.time() - start
            done = count / steps if seconds is None else elapsed / seconds * (count >= warm)
            if count % 100 == 1 or done >= 1.0:
                print(f"{label} {count}, {done:.0%}: {shown.item():.4f}, {elapsed:.0f} s", flush=True)
            if save and time.time() - saved > SAVE_SECONDS:
                save()
                saved = time.time()
    if stream:
        torch.cuda.current_stream().wait_stream(stream)
