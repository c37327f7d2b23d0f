"""Quantisation-aware layers with learned step sizes, matching the mobile wNa8o8 scheme.

Weights have one step per row, activations one per side of a linear. While training, a value is rounded in the forward
pass and passed through unrounded in the backward pass; the step learns from the rounding error (LSQ). The exported
checkpoint holds the codes and steps, so what is trained is what is shipped.

Every layer has a mode: `float` (nothing rounded), `observe` (as float, and records activation ranges) and `quantised`.
"""

import math
from enum import Enum

import torch
import torch.nn.functional as F
from torch import nn

try:
    from training.fused import Rounded
except ImportError:  # a PyTorch without Triton: the same numbers, slower
    Rounded = None

SMALLEST_STEP = 1e-8
INT8 = (-128, 127)
# First step of a weight row, as a multiple of mean |w| / sqrt(highest code). At 8 bits the range decides instead.
FIRST_STEP = {2: 1.2, 4: 2.0}


class Mode(Enum):
    """What a layer does with its values."""

    FLOAT = "float"
    OBSERVE = "observe"
    QUANTISED = "quantised"


def code_range(bits: int) -> tuple[int, int]:
    """Lowest and highest signed code of a width."""
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def round_through(values: torch.Tensor) -> torch.Tensor:
    """Rounds half to even; the gradient passes as if nothing was rounded."""
    return (values.round() - values).detach() + values


def fake_quantise(values: torch.Tensor, step: torch.Tensor, limits: tuple[int, int]) -> torch.Tensor:
    """Values as codes times step. The step's gradient is scaled down by the number of values it serves (LSQ)."""
    lowest, highest = limits
    scale = 1.0 / math.sqrt(values.numel() / max(step.numel(), 1) * highest)
    step = (step - step * scale).detach() + step * scale
    step = step.abs().clamp_min(SMALLEST_STEP)
    if Rounded and values.is_cuda and step.numel() == 1 and not torch.compiler.is_compiling():
        return Rounded.apply(values, step, lowest, highest)
    return round_through(torch.clamp(values / step, lowest, highest)) * step


def codes(values: torch.Tensor, step: torch.Tensor, limits: tuple[int, int]) -> torch.Tensor:
    """The integers of `fake_quantise`, for the export."""
    return torch.clamp((values / step).round(), *limits).to(torch.int16)


def _raise_to_range(step: nn.Parameter, values: torch.Tensor) -> None:
    step.copy_(torch.maximum(step, values.detach().float().abs().amax() / INT8[1]))


class QuantisedLinear(nn.Linear):
    """A linear with quantised input, weight and output. `adopt` turns an existing linear into one in place."""

    mode = Mode.FLOAT
    bits: int
    limits: tuple[int, int]

    @staticmethod
    def adopt(linear: nn.Linear) -> None:
        """Changes the class only, so that the module keeps its name, weight and place in the model."""
        linear.__class__ = QuantisedLinear

    def prepare(self, bits: int, shares_input_with: "QuantisedLinear | None" = None) -> None:
        """Creates the steps. q, k, v share one input step, gate and up another, as the format requires."""
        self.bits, self.limits = bits, code_range(bits)
        weight = self.weight.detach()
        if bits == 8:
            step = weight.abs().amax(1, keepdim=True) / self.limits[1]
        else:
            step = weight.abs().mean(1, keepdim=True) * FIRST_STEP[bits] / math.sqrt(self.limits[1])
        self.weight_step = nn.Parameter(step)
        # In a list, so that the owner does not become a submodule of this one.
        self.input_owner = [shares_input_with or self]
        if shares_input_with is None:
            self.input_step = nn.Parameter(torch.zeros((), device=weight.device))
        self.output_step = nn.Parameter(torch.zeros((), device=weight.device))

    @property
    def owns_input_step(self) -> bool:
        """False where another linear's step quantises the common input."""
        return self.input_owner[0] is self

    @property
    def shared_input_step(self) -> nn.Parameter:
        """The step of this linear's input, wherever it lives."""
        return self.input_owner[0].input_step

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Contract rules 1 to 3 in float, or the plain linear."""
        if self.mode is Mode.FLOAT:
            return super().forward(values)
        if self.mode is Mode.OBSERVE:
            return self._observe(values)
        weight = fake_quantise(self.weight, self.weight_step, self.limits)
        product = F.linear(fake_quantise(values, self.shared_input_step, INT8), weight)
        return fake_quantise(product, self.output_step, INT8)

    @torch.no_grad()
    def _observe(self, values: torch.Tensor) -> torch.Tensor:
        if self.owns_input_step:
            _raise_to_range(self.input_step, values)
        product = F.linear(values, self.weight)
        _raise_to_range(self.output_step, product)
        return product


class QuantisedEmbedding(nn.Module):
    """A packed table with one step per row and block; the per-layer table has one block a layer."""

    def __init__(self, embedding: nn.Embedding, scale: float):
        super().__init__()
        self.weight = embedding.weight
        self.scale = scale
        self.scalar_embed_scale = scale  # the name under which Transformers looks it up
        self.mode = Mode.FLOAT

    def prepare(self, bits: int, blocks: int) -> None:
        """Creates the steps."""
        self.bits, self.limits, self.blocks = bits, code_range(bits), blocks
        mean = self.in_blocks().detach().abs().mean(2)
        self.embedding_step = nn.Parameter(mean * FIRST_STEP[bits] / math.sqrt(self.limits[1]) + 1e-6)

    def in_blocks(self) -> torch.Tensor:
        """The table as [rows x blocks x width]."""
        return self.weight.view(len(self.weight), self.blocks, -1)

    def table(self) -> torch.Tensor:
        """The table as the runtime reads it."""
        rounded = fake_quantise(self.in_blocks(), self.embedding_step.unsqueeze(-1), self.limits)
        return rounded.view(len(self.weight), -1)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Scaled rows."""
        return F.embedding(ids, self.table() if self.mode is Mode.QUANTISED else self.weight) * self.scale


class Head(nn.Module):
    """The output head: 2-bit weights, float activations, soft cap."""

    limits = code_range(2)

    def __init__(self, vocabulary: int, hidden: int, cap: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(vocabulary, hidden) * 0.02)
        self.cap = cap
        self.mode = Mode.FLOAT

    def prepare(self) -> None:
        """Creates the steps."""
        self.weight_step = nn.Parameter(self.weight.detach().abs().mean(1, keepdim=True) * FIRST_STEP[2])

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Capped logits."""
        weight = self.weight
        if self.mode is Mode.QUANTISED:
            weight = fake_quantise(weight, self.weight_step, self.limits)
        return torch.tanh(F.linear(hidden, weight) / self.cap) * self.cap
