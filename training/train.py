"""Trains the tiny model and its drafter and writes both in the layouts of the official releases.

Three phases: full precision, quantisation-aware with learned step sizes, drafter on the frozen target. `--init`
continues from an exported pair of folders and skips the first.

    python -m training.train --tokenizer models/tiny/checkpoint/tokenizer.json --out out
    python -m training.train --tokenizer ... --out smoke --device cpu --rows 16 --batch 2 --processes 1 \
        --steps-float 2 --steps-quantised 2 --steps-drafter 2      a few minutes, shows that everything runs
"""

import argparse
import shutil
import time
from pathlib import Path

import torch

from training import drafter, export
from training.data import FIRST_SEED, Batches, corpus, read_corpus, weight
from training.forward import FastLoss
from training.model import OWN_LAYERS, TinyModel, masks_and_positions
from training.optimise import fit, next_token_loss
from training.quantise import Mode

OBSERVED_BATCHES = 8
# First steps, exports and what else is not training, where a run has so many seconds in all.
SECONDS_AROUND = 25
# What attention computes in.
ATTENTION = {"cuda": torch.bfloat16, "cpu": torch.float32}
WEIGHT_STEPS, ACTIVATION_STEPS = ("weight_step", "embedding_step"), ("input_step", "output_step")
# Learning rates relative to the others: rows of tables are seen rarely, steps serve many values.
TABLE_RATE, STEP_RATE = 2.0, 0.05
# Room above the largest observed key and value, for runtimes that quantise their cache with the stored scales.
KEY_ROOM, VALUE_ROOM = 1.42, 1.1


class TargetLoss:
    """Callable for `fit`: runs the target on the current batch, with the loss on every token."""

    def __init__(self, model: TinyModel, batches: Batches):
        self.model, self.batches = model, batches

    def __call__(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The loss to minimise, and the one to show."""
        batch = self.batches.current
        masks, positions = masks_and_positions(batch.documents)
        hidden = self.model.hidden(batch.ids, masks, positions).last_hidden_state
        return next_token_loss(self.model.head(hidden), batch.ids, batch.weights)


def parameter_groups(model: TinyModel) -> list[dict]:
    """Parameters by learning rate: everything else, tables, weight steps, activation steps."""
    tables = model.tables()
    kinds = {"other": [], "weight": [], "activation": []}
    for name, parameter in model.named_parameters():
        last = name.rsplit(".", 1)[-1]
        if any(parameter is table for table in tables):
            continue
        kind = "weight" if last in WEIGHT_STEPS else "activation" if last in ACTIVATION_STEPS else "other"
        kinds[kind].append(parameter)
    groups = [{"params": kinds["other"]}, {"params": tables, "scale": TABLE_RATE}]
    steps = [kinds["weight"], kinds["activation"]]
    return groups + [{"params": params, "scale": STEP_RATE} for params in steps if params]


def train_float(model: TinyModel, loss: TargetLoss, options) -> None:
    """The first phase, and the first activation steps from a few batches."""
    fit(
        parameter_groups(model),
        loss,
        loss.batches.draw,
        steps=options.steps_float,
        rate=options.rate,
        device=options.device,
        label="float, loss",
        mixed_precision=options.device == "cuda",
    )
    model.prepare()
    model.set_mode(Mode.OBSERVE)
    with torch.no_grad():
        for _ in range(OBSERVED_BATCHES):
            loss.batches.draw()
            loss()


def train_quantised(model: TinyModel, loss: TargetLoss, fast: FastLoss, options) -> None:
    """The second phase. Linears stay in float32: bf16 would move values across rounding boundaries."""
    model.set_mode(Mode.QUANTISED)

    def run() -> tuple[torch.Tensor, torch.Tensor]:
        value = fast(loss.batches.current)
        return value, value

    fit(
        parameter_groups(model),
        run,
        loss.batches.draw,
        steps=options.steps_quantised,
        rate=options.rate * 0.5,
        device=options.device,
        label="quantised, loss",
        mixed_precision=False,
        seconds=options.seconds_quantised,
        last=options.last_rate,
        save=lambda: export.save_state(model, options.out / "state"),
        replay=options.replay,
    )
    export.save_state(model, options.out / "state")


@torch.no_grad()
def cache_scales(model: TinyModel, loss: TargetLoss) -> dict[int, tuple[torch.Tensor, torch.Tensor]]:
    """Key and value scales of every own layer from one batch, and a last look at the loss."""
    largest = {}

    def record(place):
        return lambda _module, _arguments, output: largest.__setitem__(place, output.detach().abs().amax())

    hooks = []
    for index in range(OWN_LAYERS):
        attention = model.text.layers[index].self_attn
        hooks.append(attention.k_norm.register_forward_hook(record((index, "key"))))
        hooks.append(attention.v_norm.register_forward_hook(record((index, "value"))))
    print(f"final loss {loss()[1].item():.4f}", flush=True)
    for hook in hooks:
        hook.remove()
    rooms = {"key": KEY_ROOM, "value": VALUE_ROOM}
    return {
        index: tuple((largest[index, kind] * room / 127).float().cpu().reshape(()) for kind, room in rooms.items())
        for index in range(OWN_LAYERS)
    }


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out"), help="gets checkpoint/ and assistant/")
    parser.add_argument("--tokenizer", type=Path, required=True, help="tokenizer.json to train with")
    parser.add_argument("--init", type=Path, help="folder with checkpoint/ and assistant/ to continue from")
    parser.add_argument("--steps-float", type=int, default=3000)
    parser.add_argument("--steps-quantised", type=int, default=3000)
    parser.add_argument("--steps-drafter", type=int, default=1500, help="0 trains no drafter")
    parser.add_argument("--seconds-quantised", type=float, help="time for the quantised phase instead of steps")
    parser.add_argument("--seconds-drafter", type=float, help="time for the drafter instead of steps")
    parser.add_argument("--seconds-all", type=float, help="time for everything: the quantised phase gets the rest")
    parser.add_argument("--state", type=Path, help="folder with the state of an earlier run to continue from")
    parser.add_argument("--last-rate", type=float, default=0.02, help="learning rate at the end, as a share")
    parser.add_argument("--rows", type=int, default=160000, help="rows of 512 tokens in the corpus")
    parser.add_argument("--corpus", type=Path, help="one that `python -m training.data` made, instead")
    parser.add_argument("--batch", type=int, default=128, help="rows in a batch")
    parser.add_argument("--rate", type=float, default=2e-3, help="learning rate, halved when quantised")
    parser.add_argument("--favour", type=weight, nargs="*", default=[], metavar="TASK=WEIGHT", help="instead of TASKS")
    parser.add_argument("--compile", action="store_true", help="fuse whole layers: faster after two minutes")
    parser.add_argument("--replay", action="store_true", help="run a quantised step as one CUDA graph: the fastest")
    parser.add_argument("--seed", type=int, default=FIRST_SEED, help="of the corpus")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--processes", type=int, default=16, help="makers of the corpus; part of what it contains")
    options = parser.parse_args()
    if options.seconds_all and options.steps_drafter and not options.seconds_drafter:
        parser.error("--seconds-all needs --seconds-drafter, or --steps-drafter 0")
    return options


def train_target(model: TinyModel, batches: Batches, fast: FastLoss, options) -> None:
    """Both phases of the target, and its export."""
    loss = TargetLoss(model, batches)
    if options.init:
        model.prepare()
        export.restore(model, options.init / "checkpoint")
        if options.state:
            export.load_state(model, options.state)
    else:
        train_float(model, loss, options)
    train_quantised(model, loss, fast, options)
    with torch.no_grad():
        export.round_floats(model)
    export.export(model, options.out / "checkpoint", cache_scales(model, loss))
    shutil.copyfile(options.tokenizer, options.out / "checkpoint" / "tokenizer.json")


def train_drafter(model: TinyModel, batches: Batches, fast: FastLoss, options) -> None:
    """The third phase, and its export."""
    model.requires_grad_(False)
    # Three drafts at a time, the target at every position.
    batches.resize(batches.size // 2)
    assistant = drafter.create().to(options.device)
    if options.init:
        drafter.restore(assistant, options.init / "assistant")
    drafter.train(fast, assistant, batches, options.steps_drafter, options.device, options.seconds_drafter)
    drafter.export(assistant, options.out / "assistant")


def main() -> None:
    """Runs all phases."""
    options = parse()
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = True
    start = time.time()
    if options.corpus:
        arrays = read_corpus(options.corpus)
    else:
        arrays = corpus(options.rows, str(options.tokenizer), options.processes, options.seed, dict(options.favour))
    filled = (arrays[0] > 0).mean()
    print(f"{len(arrays[0])} rows, {filled:.3f} filled, {time.time() - start:.0f} s", flush=True)
    batches = Batches(arrays, options.batch, options.device)
    model = TinyModel().to(options.device)
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f} M parameters", flush=True)
    fast = FastLoss(model, ATTENTION[options.device], compiled=options.compile)
    if options.seconds_all:
        begun = time.time() - start
        options.seconds_quantised = options.seconds_all - begun - (options.seconds_drafter or 0) - SECONDS_AROUND
    train_target(model, batches, fast, options)
    if options.steps_drafter:
        train_drafter(model, batches, fast, options)
    print(f"done, {time.time() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
