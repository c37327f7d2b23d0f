"""Operations on texts."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Literal, Optional

import pytest

import rawloop
from rawloop import ops

TEXT = "Ida Berg plays the violin in Oslo every Monday. Her brother Tom is 12 and sings."


def test_every_operation_has_a_function_with_its_options():
    for entry in ops.table():
        function = getattr(ops, entry["name"].replace("-", "_"))
        parameters = inspect.signature(function).parameters
        names = {option["name"] for option in entry["options"]}
        ours = {name for name, one in parameters.items() if one.kind is one.KEYWORD_ONLY}
        assert ours == names, entry["name"]
        texts = [one for one in parameters.values() if one.kind is one.POSITIONAL_OR_KEYWORD]
        assert len(texts) == entry["inputs"]
        assert function.__doc__


def test_results_have_their_types():
    assert ops.classify(TEXT, labels=["music", "politics"]) in ("music", "politics")
    assert ops.sentiment(TEXT) in ("positive", "negative", "neutral")
    assert isinstance(ops.title(TEXT), str)
    assert isinstance(ops.summarize(TEXT, style="one-line"), str)
    assert isinstance(ops.tidy_transcript(TEXT), str)


@pytest.mark.parametrize(
    "wanted, ask",
    [
        (list, lambda: ops.keywords(TEXT, count=2)),
        (dict, lambda: ops.entities(TEXT, labels=["person", "city"])),
        (str, lambda: ops.redact(TEXT)),
        (dict, lambda: ops.compare(TEXT, "Tom sings.")),
        (dict, lambda: ops.extract(TEXT, fields={"name": str, "age": int})),
    ],
)
def test_data_is_of_its_form_or_there_is_none(wanted, ask):
    """The small model does not end every list."""
    try:
        found = ask()
    except rawloop.AnswerError as error:
        assert "did not end within" in str(error)
    else:
        assert isinstance(found, wanted)


def test_extraction_by_a_type():
    @dataclass
    class Person:
        first: Literal["Ida", "Tom"]
        age: Optional[bool]

    Person.__annotations__.update(first=Literal["Ida", "Tom"], age=Optional[bool])
    assert isinstance(ops.extract(TEXT, schema=Person), Person)
    with pytest.raises(rawloop.OptionError, match="both"):
        ops.extract(TEXT, fields="name", schema=Person)
    with pytest.raises(rawloop.OptionError, match="no type"):
        ops.extract(TEXT, fields={"name": complex})
    with pytest.raises(rawloop.OptionError, match="fields` or `schema"):
        ops.extract(TEXT)


def test_a_long_text_comes_in_pieces():
    model = rawloop.Model.shared()
    stream = model.stream_operation("sentiment", "I love this film! " * 200, piece_tokens=200)
    pieces = [event for event in stream if isinstance(event, rawloop.Piece)]
    assert stream.answer.pieces == len(pieces) > 1
    assert stream.answer.text in ("positive", "negative", "neutral")


def test_what_makes_no_sense_is_named():
    with pytest.raises(rawloop.OptionError, match="no operation"):
        ops.run("summarise", TEXT)
    with pytest.raises(rawloop.OptionError, match="model of speech"):
        ops.run("transcribe", TEXT)
    with pytest.raises(rawloop.OptionError, match="no option `colour`"):
        ops.summarize(TEXT, colour="red")
    with pytest.raises(rawloop.OptionError, match="style"):
        ops.summarize(TEXT, style="long")
    with pytest.raises(rawloop.OptionError, match="needs `to`"):
        ops.run("translate", TEXT)
    with pytest.raises(rawloop.OptionError, match="empty"):
        ops.sentiment(" ")
    with pytest.raises(rawloop.OptionError, match="takes 2"):
        ops.run("compare", TEXT)


def test_conversations_and_operations_share_a_model(chat):
    first = chat.respond("What is the capital of France?").text
    assert ops.sentiment("I love this film!", model=chat.model) == ops.sentiment("I love this film!")
    chat.clear()
    assert chat.respond("What is the capital of France?").text == first
