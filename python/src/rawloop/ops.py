"""Operations on texts: one call each, for texts of any length.

Those that answer in text return ``str``, those that answer in JSON the data. :func:`run` runs any of them by name and returns
an :class:`OpAnswer`, which says more. Every function takes ``model``, as :class:`rawloop.ChatSession` does, ``piece_tokens`` (tokens of
a piece of a long text at most) and ``answer_tokens`` (tokens of an answer at most).

>>> from rawloop import ops
>>> ops.classify("The match ended 2:1.", labels=["sport", "music"]) in ("sport", "music")
True
>>> sorted(names())[:3]
['answer', 'classify', 'compare']
"""

from __future__ import annotations

import json
from typing import Any, Iterable, Mapping, Union

from . import _native
from . import schema as _schema
from .errors import OptionError
from .events import OpAnswer
from .model import ModelChoice
from .session import _opened

#: Names: with commas between them, or a list.
Names = Union[str, Iterable[str]]
#: Fields: names, each with a type or not.
Fields = Union[str, Iterable[str], Mapping[str, Any]]

_FIELD_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", list: "list"}


def table() -> list[dict[str, Any]]:
    """The operations as data: name, what they do, how many texts they take, options."""
    entries: list[dict[str, Any]] = json.loads(_native.operations())
    return entries


def names() -> list[str]:
    """The names of all operations."""
    return [entry["name"] for entry in table()]


def run(
    name: str,
    *texts: str,
    model: ModelChoice = None,
    piece_tokens: int | None = None,
    answer_tokens: int | None = None,
    **options: Any,
) -> OpAnswer:
    """Runs an operation by its name."""
    return _opened(model).operation(
        name, *texts, piece_tokens=piece_tokens, answer_tokens=answer_tokens, **options
    )


def summarize(text: str, *, style: str | None = None, **limits: Any) -> str:
    """A summary: ``one-line``, ``concise`` (two or three sentences) or ``bullets``."""
    return run("summarize", text, style=style, **limits).text


def extract(text: str, *, fields: Fields | None = None, schema: Any = None, **limits: Any) -> Any:
    """The data of a text: the fields asked for, or what a schema says.

    ``fields`` are names (``"name, age:integer"``, a list) or a mapping to types (``{"name": str, "age": int}``); ``schema`` is a JSON
    schema or a type, see :mod:`rawloop.schema`, and the result is of that type.
    """
    if schema is None:
        return run("extract", text, fields=_fields(fields), **limits).value
    if fields is not None:
        raise OptionError("`fields` and `schema` are both set: one of them says what to extract")
    wanted, build = _schema.of(schema)
    return build(run("extract", text, schema=json.dumps(wanted), **limits).value)


def translate(text: str, *, to: str, **limits: Any) -> str:
    """The text in another language."""
    return run("translate", text, to=to, **limits).text


def proofread(text: str, **limits: Any) -> str:
    """The text with its mistakes corrected."""
    return run("proofread", text, **limits).text


def rewrite(text: str, *, style: str | None = None, **limits: Any) -> str:
    """The text in another style: ``formal``, ``friendly``, ``simple``, or any other in words."""
    return run("rewrite", text, style=style, **limits).text


def classify(text: str, *, labels: Names, **limits: Any) -> str:
    """One of the labels."""
    return run("classify", text, labels=_names(labels), **limits).text


def sentiment(text: str, **limits: Any) -> str:
    """``positive``, ``negative`` or ``neutral``."""
    return run("sentiment", text, **limits).text


def answer(text: str, *, question: str, **limits: Any) -> str:
    """The answer to a question, from the text alone."""
    return run("answer", text, question=question, **limits).text


def keywords(text: str, *, count: int | None = None, **limits: Any) -> list[str]:
    """Keywords, the most important first."""
    found: list[str] = run("keywords", text, count=None if count is None else str(count), **limits).value
    return found


def title(text: str, **limits: Any) -> str:
    """A title."""
    return run("title", text, **limits).text


def entities(text: str, *, labels: Names | None = None, **limits: Any) -> dict[str, list[str]]:
    """The exact words of the text for each label."""
    found: dict[str, list[str]] = run("entities", text, labels=_names(labels), **limits).value
    return found


def redact(text: str, *, labels: Names | None = None, **limits: Any) -> str:
    """The text with ``[LABEL]`` in place of personal data. ``run("redact", text).value`` says what was taken out, and where."""
    return run("redact", text, labels=_names(labels), **limits).text


def compare(text: str, other: str, **limits: Any) -> dict[str, list[dict[str, str | None]]]:
    """What is the same in two texts, and what is different: points with what either says, or ``None`` where it says nothing."""
    found: dict[str, list[dict[str, str | None]]] = run("compare", text, other, **limits).value
    return found


def tidy_transcript(text: str, **limits: Any) -> str:
    """Dictated text as written text, without fillers and repetitions."""
    return run("tidy-transcript", text, **limits).text


def _names(given: Names | None) -> str | None:
    return given if given is None or isinstance(given, str) else ", ".join(given)


def _fields(given: Fields | None) -> str | None:
    if not isinstance(given, Mapping):
        return _names(given)
    entries = []
    for name, kind in given.items():
        word = kind if isinstance(kind, str) else _FIELD_TYPES.get(kind)
        if word is None:
            raise OptionError(f"`fields`: {kind!r} is no type of a field: expected str, int, float, bool or list")
        entries.append(f"{name}:{word}")
    return ", ".join(entries)
