"""The training corpus: rows of packed conversations with a loss weight for every token."""

import argparse
import itertools
import multiprocessing
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer

from training.chatdata import EXERCISES, TASKS, samples
from training.turns import render

ROW_LENGTH, ROW_WRITTEN = 512, 160
# Rows that wait for more at a time: with fewer a tenth of every row stays empty.
OPEN_ROWS = 16
FIRST_SEED = 1000
# Samples that fill a row of 512 tokens on average, with a little to spare.
SAMPLES_PER_ROW = 5.6
TURN_START, TURN_END, RESULT_START, RESULT_END = 105, 106, 50, 51


def answer_weights(ids: list[int], model_id: int) -> list[int]:
    """1 for the tokens the model writes, 0 for all others.

    Written are the texts of model turns up to and including the end marker, and the opening of a tool result. Not
    written are the turn header (marker, role, newline) and the result itself, which the caller supplies.
    """
    weights, in_model_turn, in_result = [], False, False
    for index, token in enumerate(ids):
        if token == TURN_START:
            in_model_turn = ids[index + 1] == model_id
        if token == RESULT_END:
            in_result = False
            weights.append(0)
            continue
        in_header = TURN_START in ids[max(index - 2, 0) : index + 1]
        weights.append(int(in_model_turn and not in_result and not in_header))
        if token == RESULT_START:
            in_result = True
        if token == TURN_END:
            in_model_turn = False
    return weights


class RowPacker:
    """Fills rows with whole conversations: the fullest open row that has room takes the next one.

    A row has room for `ROW_LENGTH` tokens, of which at most `ROW_WRITTEN` are written by the model: the upper layers
    run at those alone, and a batch has one shape.
    """

    def __init__(self):
        self.rows: list[Row] = []
        self.open: list[Row] = []

    def add(self, ids: list[int], weights: list[int]) -> None:
        """Places a conversation; one that fits no empty row is left out."""
        written = sum(weights)
        if len(ids) > ROW_LENGTH or written > ROW_WRITTEN:
            return
        self.open.sort(key=lambda row: -len(row.ids))
        row = next((row for row in self.open if row.has_room(len(ids), written)), None)
        if row is None:
            if len(self.open) == OPEN_ROWS:
                self.rows.append(self.open.pop(0))
            row = Row()
            self.open.append(row)
        row.add(ids, weights, written)


class Row:
    """Conversations that lie one after the other, each with its number."""

    def __init__(self):
        self.ids, self.documents, self.weights = [], [], []
        self.count, self.written = 0, 0

    def has_room(self, length: int, written: int) -> bool:
        """Whether a conversation of so many tokens fits."""
        return len(self.ids) + length <= ROW_LENGTH and self.written + written <= ROW_WRITTEN

    def add(self, ids: list[int], weights: list[int], written: int) -> None:
        """Appends a conversation."""
        self.count += 1
        self.written += written
        self.ids += ids
        self.documents += [self.count] * len(ids)
        self.weights += weights

    def parts(self) -> tuple[list[int], list[int], list[int]]:
        """Ids, document numbers and weights, filled up with zeros."""
        padding = [0] * (ROW_LENGTH - len(self.ids))
        return self.ids + padding, self.documents + padding, self.weights + padding


def pack_samples(
    seed: int, count: int, tokenizer_path: str, favoured: Mapping[str, float] | None = None
) -> list[np.ndarray]:
    """Ids, document numbers and weights of `count` samples, each [rows x 512]. Rows open at the end are dropped."""
    tokenizer = Tokenizer.from_file(tokenizer_path)
    model_id = tokenizer.encode("model", add_special_tokens=False).ids[0]
    packer = RowPacker()
    for _, turns, _ in itertools.islice(samples(seed, "train", favoured), count):
        ids = tokenizer.encode(render(turns), add_special_tokens=False).ids
        packer.add(ids, answer_weights(ids, model_id))
    types = (np.uint16, np.uint8, np.uint8)
    parts = zip(*(row.parts() for row in packer.rows), strict=True)
    return [np.array(part, kind) for part, kind in zip(parts, types, strict=True)]


def weight(text: str) -> tuple[str, float]:
    """`TASK=WEIGHT`."""
    task, _, value = text.partition("=")
    if task not in TASKS and task not in EXERCISES:
        raise argparse.ArgumentTypeError(f"there is no task {task}")
    return task, float(value)


def read_corpus(path: Path) -> list[np.ndarray]:
    """A corpus that was made beforehand."""
    with np.load(path) as arrays:
        return [arrays[name] for name in arrays.files]


def corpus(
    rows: int, tokenizer_path: str, processes: int, first_seed: int, favoured: Mapping[str, float] | None = None
) -> list[np.ndarray]:
    """About `rows` rows. The number of processes is part of the corpus: each takes a seed of its own."""
    count = int(rows * SAMPLES_PER_ROW / processes) + 1
    make = partial(pack_samples, count=count, tokenizer_path=tokenizer_path, favoured=favoured)
    seeds = range(first_seed, first_seed + processes)
    if processes == 1:
        parts = [make(first_seed)]
    else:
        with multiprocessing.Pool(processes) as pool:
            parts = pool.map(make, seeds)
    return [np.concatenate([part[which] for part in parts]) for which in range(3)]


@dataclass
class Batch:
    """Rows to train on: ids, document numbers and loss weights, each [batch x 512]."""

    ids: torch.Tensor
    documents: torch.Tensor
    weights: torch.Tensor


class Batches:
    """Draws rows with replacement from a corpus that lies on the device, into buffers that stay where they are."""

    def __init__(self, arrays: list[np.ndarray], size: int, device: str, seed: int = 1):
        self.tensors = [torch.from_numpy(array.astype(np.int32)).to(device) for array in arrays]
        # On the device: a draw must not make the host wait for it.
        self.generator = torch.Generator(device).manual_seed(seed)
        self.resize(size)

    def resize(self, size: int) -> None:
        """Batches of so many rows from now on."""
        self.size = size
        shape = (size, self.tensors[0].shape[1])
        kinds = (torch.int64, torch.int64, torch.int32)
        buffers = (torch.zeros(shape, dtype=kind, device=self.generator.device) for kind in kinds)
        self.current = Batch(*buffers)
        self.draw()

    def draw(self) -> Batch:
        """Puts the next batch into `current`."""
        device = self.generator.device
        chosen = torch.randint(len(self.tensors[0]), (self.size,), generator=self.generator, device=device)
        into = (self.current.ids, self.current.documents, self.current.weights)
        for buffer, rows in zip(into, self.tensors, strict=True):
            buffer.copy_(rows[chosen])
        return self.current


def main() -> None:
    """Makes a corpus beforehand."""
    parser = argparse.ArgumentParser(description="Make a corpus and keep it: `train --corpus` reads it.")
    parser.add_argument("out", type=Path, help="an .npz to write")
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=160000)
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--seed", type=int, default=FIRST_SEED)
    parser.add_argument("--favour", type=weight, nargs="*", default=[], metavar="TASK=WEIGHT", help="instead of TASKS")
    options = parser.parse_args()
    arrays = corpus(options.rows, str(options.tokenizer), options.processes, options.seed, dict(options.favour))
    np.savez_compressed(options.out, *arrays)
    print(f"{len(arrays[0])} rows, {(arrays[0] > 0).mean():.3f} filled")


if __name__ == "__main__":
    main()
