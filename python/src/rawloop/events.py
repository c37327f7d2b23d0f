"""What an answer is made of, while it comes and when it is there.

Events are small frozen classes, to be told apart with ``match``:

>>> import rawloop
>>> chat = rawloop.ChatSession(temperature=0)
>>> for event in chat.stream("What is the capital of France?"):
...     match event:
...         case rawloop.Text(text):
...             print(text, end="")
...         case rawloop.Done(answer):
...             print(" |", answer.finish)
The capital of France is Paris. | stop
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Union


@dataclass(frozen=True)
class Prefill:
    """Part of the prompt is done: ``done`` of ``total`` tokens, those that a cache held included."""

    done: int
    total: int


@dataclass(frozen=True)
class Thought:
    """More of the thought."""

    text: str


@dataclass(frozen=True)
class Text:
    """More of the answer."""

    text: str


@dataclass(frozen=True)
class Call:
    """A call that the model makes, with its arguments as they were declared."""

    name: str
    arguments: dict[str, Any]
    id: str | None = None


@dataclass(frozen=True)
class Result:
    """What the model was told of a call."""

    name: str
    text: str
    id: str | None = None
    arguments: dict[str, Any] | None = None


@dataclass(frozen=True)
class Piece:
    """A piece of a long text comes next: number ``index``, from 0, of ``count``."""

    index: int
    count: int


@dataclass(frozen=True)
class Stats:
    """How much work an answer was. The rates are tokens per second."""

    prompt_tokens: int = 0
    reused_tokens: int = 0
    tokens: int = 0
    forced_tokens: int = 0
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0
    decode_steps: int = 0
    verify_steps: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    prefill_rate: float = 0.0
    decode_rate: float = 0.0


@dataclass
class Answer:
    """A whole answer.

    ``finish`` says why it ended: ``stop``, ``length`` (``max_tokens``), ``context``, ``loop`` (it repeated itself) or
    ``cancelled``. ``seed`` gives the same answer again. ``value`` is the answer as data where a schema was asked for.
    """

    text: str
    finish: str
    seed: int
    ids: list[int] = field(repr=False)
    stats: Stats = field(repr=False)
    reasoning: str = ""
    calls: list[Call] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    limited: bool = False
    warnings: list[str] = field(default_factory=list)
    logprobs: list[dict[str, Any]] = field(default_factory=list, repr=False)
    value: Any = None

    def __str__(self) -> str:
        return self.text

    @classmethod
    def _of(cls, data: dict[str, Any]) -> Answer:
        data["stats"] = Stats(**data["stats"])
        data["calls"] = [Call(call["name"], call["arguments"]) for call in data.get("calls", [])]
        data["results"] = [
            Result(result["name"], result["told"], result["id"], result["arguments"])
            for result in data.get("results", [])
        ]
        return cls(**data)


@dataclass
class OpAnswer:
    """The answer of an operation: as text, and as data where it is JSON.

    ``whole`` says whether every part ended by itself, ``pieces`` how many the text was split into, ``dropped`` how many
    strings the model named that are not in the text.
    """

    text: str
    value: Any
    whole: bool
    pieces: int
    dropped: int
    prompts: int = field(repr=False)
    retried: int = field(repr=False)
    prompt_tokens: int = field(repr=False)
    reused_tokens: int = field(repr=False)
    tokens: int = field(repr=False)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Done:
    """The whole answer: the last event."""

    answer: Any


Event = Union[Prefill, Thought, Text, Call, Result, Piece, Done]
