"""Trains the tiny tokenizer: Gemma's scheme (byte-fallback BPE over text whose spaces are U+2581) with 4096 entries.

Special tokens keep the ids they have in Gemma 4, so a runtime needs no second table for the tiny model. Digits and
newlines are single tokens. The shipped tokenizer.json was trained before the last additions to the data; retraining
gives other ids, and a checkpoint only works with the tokenizer it was trained with.

    python -m training.tokenizer --out tokenizer.json
"""

import argparse
import itertools
import json

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from training.chatdata import samples
from training.turns import render

VOCABULARY_SIZE = 4096
SPACE = "\u2581"
# Ids 0-255 are special or unused, as the low ids of Gemma 4 are; 256-511 are the bytes.
RESERVED, BYTES = 256, 256
SPECIAL_TOKENS = {
    0: "<pad>", 1: "<eos>", 2: "<bos>", 3: "<unk>", 4: "<mask>", 46: "<|tool>", 47: "<tool|>", 48: "<|tool_call>",
    49: "<tool_call|>", 50: "<|tool_response>", 51: "<tool_response|>", 52: '<|"|>', 98: "<|think|>",
    100: "<|channel>", 101: "<channel|>", 105: "<|turn>", 106: "<turn|>",
}  # fmt: skip


def learn_merges(seed: int, count: int) -> dict:
    """The BPE model learnt from `count` training samples: markers removed, digits and newlines split off."""
    learner = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    learner.normalizer = normalizers.Replace(" ", SPACE)
    learner.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"<\|?[a-z_\"]+\|?>"), "removed"),
            pre_tokenizers.Split(Regex(r"[0-9\n]"), "isolated"),
            pre_tokenizers.Split(Regex(rf"{SPACE}?[^{SPACE}]+"), "isolated"),
        ]
    )
    texts = (render(turns) for _, turns, _ in itertools.islice(samples(seed, "train"), count))
    alphabet = [chr(code) for code in range(33, 127)] + ["\n", SPACE]
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY_SIZE - RESERVED - BYTES, initial_alphabet=alphabet, show_progress=False
    )
    learner.train_from_iterator(texts, trainer)
    return json.loads(learner.to_str())["model"]


def lay_out(learnt: dict[str, int]) -> dict[str, int]:
    """Gives every token its id: special and unused, bytes, learnt pieces, and unused ones up to the full size."""
    vocabulary = {SPECIAL_TOKENS.get(i, f"<unused{i}>"): i for i in range(RESERVED)}
    vocabulary |= {f"<0x{byte:02X}>": RESERVED + byte for byte in range(BYTES)}
    for token in sorted(learnt, key=learnt.get):
        vocabulary.setdefault(token, len(vocabulary))
    while len(vocabulary) < VOCABULARY_SIZE:
        vocabulary[f"<unused{len(vocabulary)}>"] = len(vocabulary)
    if len(vocabulary) != VOCABULARY_SIZE:
        raise ValueError(f"{len(vocabulary)} tokens do not fit a vocabulary of {VOCABULARY_SIZE}")
    return vocabulary


def train(seed: int, count: int) -> Tokenizer:
    """The finished tokenizer; text is split at nothing but spaces, as Gemma's is."""
    learnt = learn_merges(seed, count)
    merges = [tuple(pair) if isinstance(pair, list) else tuple(pair.split(" ")) for pair in learnt["merges"]]
    vocabulary = lay_out(learnt["vocab"])
    tokenizer = Tokenizer(
        models.BPE(vocab=vocabulary, merges=merges, byte_fallback=True, unk_token="<unk>", fuse_unk=True)
    )
    tokenizer.normalizer = normalizers.Replace(" ", SPACE)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence([decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS.values()))
    return tokenizer


def check_round_trip(tokenizer: Tokenizer) -> None:
    """Markers, digits, JSON and text outside the training alphabet must decode to what was encoded."""
    for text in (
        "<bos><|turn>user\nWhat is 847 + 38?<turn|>\n<|turn>model\n",
        "Caf\u00e9 \U0001f600 na\u00efve",
        '{"name": "Ana", "age": 19}',
    ):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        back = tokenizer.decode(ids, skip_special_tokens=False)
        if back != text:
            raise ValueError(f"{text!r} comes back as {back!r}")


def main() -> None:
    """Trains, checks, saves and reports the mean sample length."""
    parser = argparse.ArgumentParser(description="Train the tiny tokenizer.")
    parser.add_argument("--out", default="tokenizer.json", help="file to write")
    parser.add_argument("--seed", type=int, default=99, help="seed of the corpus")
    parser.add_argument("--count", type=int, default=60000, help="samples to learn from")
    options = parser.parse_args()
    tokenizer = train(options.seed, options.count)
    check_round_trip(tokenizer)
    tokenizer.save(options.out)
    texts = [render(turns) for _, turns, _ in itertools.islice(samples(5, "train"), 2000)]
    lengths = [len(tokenizer.encode(text, add_special_tokens=False).ids) for text in texts]
    print(f"{tokenizer.get_vocab_size()} tokens, {sum(lengths) / len(lengths):.1f} tokens per sample")


if __name__ == "__main__":
    main()
