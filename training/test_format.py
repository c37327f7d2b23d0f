"""Codes, packing and loss weights: small checks that need torch and the shipped tokenizer.

python -m unittest training.test_format
"""

import unittest
from pathlib import Path

try:
    import torch
    from tokenizers import Tokenizer
except ModuleNotFoundError as missing:
    raise unittest.SkipTest(f"{missing.name} is not installed; see training/requirements.txt") from missing

from training.chatdata import samples
from training.data import ROW_LENGTH, ROW_WRITTEN, RowPacker, answer_weights
from training.export import pack, unpack
from training.quantise import code_range, codes, fake_quantise
from training.turns import render

TOKENIZER = Path(__file__).parent.parent / "models/tiny/checkpoint/tokenizer.json"


class CodesTest(unittest.TestCase):
    def test_packing_is_undone_by_unpacking_at_every_width(self):
        for bits in (2, 4, 8):
            lowest, highest = code_range(bits)
            every = torch.arange(lowest, highest + 1).repeat(2, 2)
            self.assertTrue(torch.equal(unpack(pack(every, bits), bits), every.float()), bits)

    def test_first_value_lies_in_the_low_bits(self):
        self.assertEqual(pack(torch.tensor([[-2, -1, 0, 1]]), 2).tolist(), [[0b11100100]])
        self.assertEqual(pack(torch.tensor([[-8, 7]]), 4).tolist(), [[0xF0]])

    def test_training_sees_the_exported_codes(self):
        values = torch.randn(4, 32, generator=torch.Generator().manual_seed(0))
        step = torch.full((4, 1), 0.3)
        rounded = fake_quantise(values, step, code_range(2))
        self.assertTrue(torch.allclose(rounded, codes(values, step, code_range(2)) * step, atol=1e-6))

    def test_halves_round_to_even(self):
        ones = torch.ones(1)
        values = torch.tensor([-1.5, -0.5, 0.5, 1.5, 2.5])
        self.assertEqual(codes(values, ones, code_range(8)).tolist(), [-2, 0, 0, 2, 2])


class CorpusTest(unittest.TestCase):
    def setUp(self):
        self.tokenizer = Tokenizer.from_file(str(TOKENIZER))
        self.model_id = self.tokenizer.encode("model", add_special_tokens=False).ids[0]

    def written(self, text: str) -> str:
        ids = self.tokenizer.encode(text, add_special_tokens=False).ids
        kept = [token for token, weight in zip(ids, answer_weights(ids, self.model_id), strict=True) if weight]
        return self.tokenizer.decode(kept, skip_special_tokens=False)

    def test_only_what_the_model_writes_counts(self):
        text = render([("user", "Hi there"), ("model", "Hello!"), ("user", "Bye"), ("model", "Goodbye!")])
        self.assertEqual(self.written(text), "Hello!<turn|>Goodbye!<turn|>")

    def test_a_tool_result_is_opened_by_the_model_and_filled_by_the_caller(self):
        call, result = "<|tool_call>call:add{a:1,b:2}<tool_call|>", "response:add{result:3}<tool_response|>"
        text = render([("user", "Add."), ("model", f"{call}<|tool_response>{result}The result is 3.")])
        self.assertEqual(self.written(text), f"{call}<|tool_response>The result is 3.<turn|>")

    def test_rows_hold_whole_conversations(self):
        packer, source = RowPacker(), samples(3, "train")
        while len(packer.rows) < 3:
            ids = self.tokenizer.encode(render(next(source)[1]), add_special_tokens=False).ids
            packer.add(ids, answer_weights(ids, self.model_id))
        for ids, documents, weights in (row.parts() for row in packer.rows):
            self.assertLessEqual(sum(weights), ROW_WRITTEN)
            self.assertEqual({len(ids), len(documents), len(weights)}, {ROW_LENGTH})
            starts = [index for index, token in enumerate(ids) if token == 2]
            self.assertEqual(len(starts), max(documents))
            self.assertEqual([documents[start] for start in starts], list(range(1, len(starts) + 1)))


if __name__ == "__main__":
    unittest.main()
