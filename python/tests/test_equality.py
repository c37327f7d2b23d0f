"""The package answers as the program does: the same text and the same tokens for the same prompt and seed."""

from __future__ import annotations

import json

import pytest

import rawloop
from rawloop import ops

PROMPTS = ["What is the capital of France?", "Tell me a short story.", "What is 17 + 25?", "Sort: 4, 9, 1, 7"]


@pytest.mark.parametrize("seed", [0, 7, 123_456_789])
@pytest.mark.parametrize("prompt", PROMPTS)
def test_answers_with_the_same_seed_are_equal(program, prompt, seed):
    ours = rawloop.generate(prompt, seed=seed, temperature=1.5, max_tokens=80)
    theirs = program("run", "--json", "--seed", str(seed), "--temperature", "1.5", "--max-tokens", "80", prompt)
    assert ours.text == theirs["text"]
    assert ours.finish == theirs["finish_reason"]
    assert ours.stats.prompt_tokens == theirs["timings"]["prompt_tokens"]


@pytest.mark.parametrize(
    "settings, flags",
    [
        ({"temperature": 0}, ["--greedy"]),
        ({"thinking": True, "seed": 3}, ["--thinking", "--seed", "3"]),
        ({"thinking": 5, "seed": 3}, ["--thinking=5", "--seed", "3"]),
        ({"system": "Answer in one word.", "seed": 4}, ["--system", "Answer in one word.", "--seed", "4"]),
        ({"stop": [" of"], "temperature": 0}, ["--stop", " of", "--greedy"]),
        (
            {"seed": 5, "temperature": 2, "top_k": 0, "top_p": 0.9, "min_p": 0.01, "typical": 0.95},
            "--seed 5 --temperature 2 --top-k 0 --top-p 0.9 --min-p 0.01 --typical 0.95".split(),
        ),
        (
            {"seed": 6, "temperature": 1.5, "repetition": 1.2, "presence": 0.5, "frequency": 0.3, "dry": 0.8},
            "--seed 6 --temperature 1.5 --repetition 1.2 --presence 0.5 --frequency 0.3 --dry 0.8".split(),
        ),
        ({"seed": 8, "draft": "off", "bias": {300: 2.5}}, "--seed 8 --draft off --bias 300=2.5".split()),
        ({"choice": ["yes", "no"], "temperature": 0}, "--choice yes --choice no --greedy".split()),
        ({"regex": "[a-z]{3,9}", "seed": 9}, ["--regex", "[a-z]{3,9}", "--seed", "9"]),
    ],
)
def test_settings_mean_what_the_flags_mean(program, settings, flags):
    prompt = "Is the sentiment of the text positive? I love this film and the music in it."
    ours = rawloop.generate(prompt, max_tokens=60, **settings)
    theirs = program("run", "--json", "--max-tokens", "60", *flags, prompt)
    assert (ours.text, ours.reasoning) == (theirs["text"], theirs["reasoning"])


def test_a_raw_text_is_continued_as_the_program_does(program):
    ours = rawloop.generate("Once upon a time", raw=True, seed=11, max_tokens=50)
    theirs = program("run", "--raw", "--json", "--seed", "11", "--max-tokens", "50", "Once upon a time")
    assert ours.text == theirs["text"]


def test_a_schema_gives_the_same_object(program):
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer"}},
        "required": ["name", "age"],
        "additionalProperties": False,
    }
    prompt = "Extract name and age as JSON: Ida is 42 years old."
    ours = rawloop.generate(prompt, schema=schema, seed=2)
    theirs = program("run", "--json", "--seed", "2", "--json-schema", json.dumps(schema), prompt)
    assert ours.text == theirs["text"]
    assert ours.value == json.loads(theirs["text"])


@pytest.mark.parametrize(
    "name, options, flags",
    [
        ("sentiment", {}, []),
        ("classify", {"labels": "sport, politics, music"}, ["--labels", "sport, politics, music"]),
        ("keywords", {"count": "3"}, ["--count", "3"]),
        ("title", {}, []),
        ("summarize", {"style": "one-line"}, ["--style", "one-line"]),
        ("redact", {}, []),
    ],
)
def test_operations_are_equal(program, name, options, flags):
    text = "Ida Berg plays the violin in Oslo every Monday. I love her music."
    theirs = program("op", name, "--json", *flags, stdin=text)
    try:
        ours = ops.run(name, text, **options)
    except rawloop.AnswerError as error:
        # The small model does not end every list; then neither of them has an answer.
        assert str(error) == theirs
    else:
        assert (ours.text, ours.value) == (theirs["text"], theirs["value"])


@pytest.mark.parametrize("arguments", [{"threads": 1}, {"threads": 3}, {"kernels": "portable"}, {"context": 600}])
def test_how_it_runs_changes_nothing(arguments):
    settings = {"seed": 21, "temperature": 1.5, "max_tokens": 40}
    usual = rawloop.generate("Tell me a short story.", **settings)
    other = rawloop.ChatSession(**arguments, **settings).respond("Tell me a short story.")
    assert other.ids == usual.ids
