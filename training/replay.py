"""A training step as one CUDA graph: launched at once instead of kernel by kernel.

A step of this model is some thousand small kernels, and launching them takes a processor three times as long as running
them takes the GPU. A captured step reads and writes fixed memory, so batches lie in buffers (`Batches.current`) and
learning rates in tensors.
"""

from collections.abc import Callable

import torch

# The captured loss may differ from the plain one by what a value that rounds to another code does.
ALLOWED = 0.02


class CaptureError(RuntimeError):
    """The captured step computes something else."""


def captured(
    step: Callable[[], torch.Tensor], loss: Callable[[], torch.Tensor]
) -> tuple[Callable[[], torch.Tensor], torch.Tensor]:
    """Captures `step`, which ran several times before, on the current stream, which must not be the default one.

    Gives a function that runs the step and returns what it returned, always the same tensor; it ran once already, on
    the batch that lies ready. `loss` is what the step returns, computed plainly, to compare with.
    """
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
        shown = step()
    # With gradients, so that attention picks the same kernel.
    expected = loss().item()
    graph.replay()
    found = shown.item()
    if not abs(found - expected) <= ALLOWED * abs(expected):
        raise CaptureError(f"the captured step has a loss of {found}, the plain one of {expected}")

    def run() -> torch.Tensor:
        graph.replay()
        return shown

    return run, shown
