"""The training step's own forward pass gives the loss and the gradients of Transformers' code.

python -m unittest training.test_forward
"""

import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import torch
    import transformers  # noqa: F401
except ModuleNotFoundError as missing:
    raise unittest.SkipTest(f"{missing.name} is not installed; see training/requirements.txt") from missing

from training import export
from training.data import Batch, pack_samples
from training.forward import FastLoss
from training.model import TinyModel, masks_and_positions
from training.optimise import next_token_loss
from training.quantise import Mode

ROOT = Path(__file__).parent.parent
CHECKPOINT = ROOT / "models/tiny/checkpoint"
# Runs with Triton's interpreter, which has to be asked for before Triton is imported.
FUSED = """
import torch
from training.fused import Rounded
from training.quantise import round_through

def gradients(rounding):
    generator = torch.Generator().manual_seed(0)
    values = (torch.randn(7, 1000, generator=generator) * 3).requires_grad_()
    step = torch.tensor(0.02, requires_grad=True)
    result = rounding(values, step)
    (result * torch.randn(7, 1000, generator=generator)).sum().backward()
    return result.detach(), values.grad, step.grad

plain = gradients(lambda values, step: round_through(torch.clamp(values / step, -128, 127)) * step)
fused = gradients(lambda values, step: Rounded.apply(values, step, -128, 127))
assert all(torch.allclose(one, two, rtol=1e-5, atol=1e-3) for one, two in zip(plain, fused, strict=True))
"""


def shipped() -> TinyModel:
    """The shipped model, rounding."""
    torch.manual_seed(0)
    model = TinyModel()
    model.prepare()
    export.restore(model, CHECKPOINT)
    model.set_mode(Mode.QUANTISED)
    return model


def batch() -> Batch:
    """Two rows."""
    arrays = pack_samples(7, 150, str(CHECKPOINT / "tokenizer.json"))
    return Batch(*(torch.from_numpy(array[:2].astype("int64")) for array in arrays))


class ForwardTest(unittest.TestCase):
    def test_loss_and_gradients_are_those_of_transformers(self):
        model, rows = shipped(), batch()
        masks, positions = masks_and_positions(rows.documents)
        hidden = model.hidden(rows.ids, masks, positions).last_hidden_state
        _, wanted = next_token_loss(model.head(hidden), rows.ids, rows.weights)
        wanted.backward()
        gradients = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
        model.zero_grad(set_to_none=True)

        loss = FastLoss(model, torch.float32, compiled=False)(rows)
        loss.backward()
        self.assertAlmostEqual(loss.item(), wanted.item(), delta=2e-3 * wanted.item())
        found = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
        self.assertEqual(set(found), set(gradients))
        for name in found:
            if name.endswith("weight"):
                alike = torch.cosine_similarity(found[name].flatten(), gradients[name].flatten(), dim=0)
                self.assertGreater(alike.item(), 0.97, name)

    def test_a_drafter_reads_what_transformers_says(self):
        model, rows = shipped(), batch()
        masks, positions = masks_and_positions(rows.documents)
        with torch.no_grad():
            hidden = model.hidden(rows.ids, masks, positions).last_hidden_state
            wanted = model.head(hidden).argmax(-1)
            said = FastLoss(model, torch.float32, compiled=False).says(rows)
        self.assertTrue(torch.equal(said.positions, positions))
        written = rows.weights[:, 1:] > 0
        same = (said.tokens == wanted)[:, :-1][written].float().mean().item()
        self.assertGreater(same, 0.99)

    def test_a_state_keeps_what_lies_between_the_codes(self):
        model, other = shipped(), shipped()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1.01)
            with tempfile.TemporaryDirectory() as folder:
                export.save_state(model, Path(folder))
                export.load_state(other, Path(folder))
        for (name, one), two in zip(model.named_parameters(), other.parameters(), strict=True):
            self.assertTrue(torch.allclose(one, two, rtol=1e-3, atol=1e-6), name)


@unittest.skipUnless(importlib.util.find_spec("triton"), "PyTorch comes without Triton here")
class FusedTest(unittest.TestCase):
    def test_fused_rounding_and_its_gradients_are_the_plain_ones(self):
        environment = {**os.environ, "TRITON_INTERPRET": "1"}
        ended = subprocess.run(
            [sys.executable, "-c", FUSED], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        self.assertEqual(ended.returncode, 0, ended.stderr)


if __name__ == "__main__":
    unittest.main()
