"""Rounding of activations as one kernel each way, in Triton; by PyTorch's operations it takes a dozen passes.

`torch.compile` makes something as good of those, but takes two minutes before the first step; these take a second.
"""

import torch
import triton
import triton.language as tl

BLOCK = 4096
# Adding and subtracting it rounds a float32 below 2**22 to an integer, half to even.
ROUNDER = tl.constexpr(12582912.0)


@triton.jit
def _codes(values, step, lowest: tl.constexpr, highest: tl.constexpr):
    exact = values / step
    clamped = tl.minimum(tl.maximum(exact, lowest), highest)
    return exact, (clamped + ROUNDER) - ROUNDER


@triton.jit
def _forward(values, step, result, count, lowest: tl.constexpr, highest: tl.constexpr, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    size = tl.load(step)
    _, rounded = _codes(tl.load(values + at, mask=at < count, other=0.0), size, lowest, highest)
    tl.store(result + at, rounded * size, mask=at < count)


@triton.jit
def _backward(
    values, step, gradient, passed, parts, count, lowest: tl.constexpr, highest: tl.constexpr, block: tl.constexpr
):
    at = tl.program_id(0) * block + tl.arange(0, block)
    exact, rounded = _codes(tl.load(values + at, mask=at < count, other=0.0), tl.load(step), lowest, highest)
    inside = (exact >= lowest) & (exact <= highest)
    above = tl.load(gradient + at, mask=at < count, other=0.0)
    tl.store(passed + at, tl.where(inside, above, 0.0), mask=at < count)
    tl.store(parts + tl.program_id(0), tl.sum(above * (rounded - tl.where(inside, exact, 0.0)), 0))


class Rounded(torch.autograd.Function):
    """`(values, positive step, lowest, highest)` to the values on the grid of the step, gradients as in quantise.py."""

    @staticmethod
    def forward(context, values, step, lowest, highest):
        """The values on the grid."""
        values = values.contiguous()
        result = torch.empty_like(values)
        count = values.numel()
        _forward[(triton.cdiv(count, BLOCK),)](values, step, result, count, lowest, highest, BLOCK)
        context.save_for_backward(values, step)
        context.limits = lowest, highest
        return result

    @staticmethod
    def backward(context, gradient):
        """Gradients of values and step."""
        values, step = context.saved_tensors
        gradient, passed, count = gradient.contiguous(), torch.empty_like(values), values.numel()
        blocks = triton.cdiv(count, BLOCK)
        parts = torch.empty(blocks, device=values.device)
        _backward[(blocks,)](values, step, gradient, passed, parts, count, *context.limits, BLOCK)
        return passed, parts.sum().view_as(step), None, None
