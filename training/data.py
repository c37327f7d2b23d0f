"""The training corpus: rows of packed conversations with a loss weight for every token."""

import itertools
import multiprocessing
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from tokenizers import Tokenizer

from training.chatdata import samples
from training.turns import render

ROW_LENGTH = 512
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
    """Fills rows with whole conversations, in order; what does not fit starts the next row."""

    def __init__(self):
        self.rows: list[tuple[list[int], list[int], list[int]]] = []
        self._start()

    def _start(self) -> None:
        self.ids, self.documents, self.weights, self.count = [], [], [], 0

    def add(self, ids: list[int], weights: list[int]) -> None:
        """Appends a conversation; one longer than a row is left out."""
        if len(ids) > ROW_LENGTH:
            return
        if len(self.ids) + len(ids) > ROW_LENGTH:
            padding = [0] * (ROW_LENGTH - len(self.ids))
            self.rows.append((self.ids + padding, self.documents + padding, self.weights + padding))
            self._start()
        self.count += 1
        self.ids += ids
        self.documents += [self.count] * len(ids)
        self.weights += weights


def pack_samples(seed: int, count: int, tokenizer_path: str) -> list[np.ndarray]:
    """Ids, document numbers and weights of `count` samples, each [rows x 512]. The last row is dropped if not full."""
    tokenizer = Tokenizer.from_file(tokenizer_path)
    model_id = tokenizer.encode("model", add_special_tokens=False).ids[0]
    packer = RowPacker()
    for _, turns, _ in itertools.islice(samples(seed, "train"), count):
        ids = tokenizer.encode(render(turns), add_special_tokens=False).ids
        packer.add(ids, answer_weights(ids, model_id))
    types = (np.uint16, np.uint8, np.uint8)
    return [np.array([row[part] for row in packer.rows], kind) for part, kind in enumerate(types)]


def corpus(rows: int, tokenizer_path: str, processes: int) -> list[np.ndarray]:
    """About `rows` rows. The number of processes is part of the corpus: each takes a seed of its own."""
    count = int(rows * SAMPLES_PER_ROW / processes) + 1
    make = partial(pack_samples, count=count, tokenizer_path=tokenizer_path)
    seeds = range(FIRST_SEED, FIRST_SEED + processes)
    if processes == 1:
        parts = [make(FIRST_SEED)]
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
    """Draws rows with replacement from a corpus that lies on the device."""

    def __init__(self, arrays: list[np.ndarray], size: int, device: str, seed: int = 1):
        self.tensors = [torch.from_numpy(array.astype(np.int32)).to(device) for array in arrays]
        self.size, self.device = size, device
        self.generator = torch.Generator().manual_seed(seed)

    def draw(self) -> Batch:
        """The next batch."""
        ids, documents, weights = self.tensors
        chosen = torch.randint(len(ids), (self.size,), generator=self.generator).to(self.device)
        return Batch(ids[chosen].long(), documents[chosen].long(), weights[chosen])
