"""Gemma 4 on a hand-written decode loop: conversations, tools, JSON answers and operations on texts.

>>> import rawloop
>>> chat = rawloop.ChatSession(temperature=0)
>>> print(chat.respond("What is the capital of France?"))
The capital of France is Paris.

Start with :class:`ChatSession`; :func:`generate` answers one prompt, :mod:`rawloop.ops` works on texts. Without a model's path, the
small model in this package answers. The guide is ``docs/python.md`` of the repository.
"""

from __future__ import annotations

from . import errors, events, ops, schema, settings
from ._native import __version__
from .errors import (
    AnswerError,
    BackendError,
    BusyError,
    CancelledError,
    ContextError,
    MessageError,
    ModelError,
    OptionError,
    RawloopError,
    SchemaError,
    SessionFileError,
)
from .events import Answer, Call, Done, Event, OpAnswer, Piece, Prefill, Result, Stats, Text, Thought
from .model import Model, ModelInfo
from .session import ChatSession, TokenCounts, Totals, agenerate, generate
from .streams import AsyncStream, Stream
from .tools import Tool

__all__ = [
    "Answer",
    "AnswerError",
    "AsyncStream",
    "BackendError",
    "BusyError",
    "Call",
    "CancelledError",
    "ChatSession",
    "ContextError",
    "Done",
    "Event",
    "MessageError",
    "Model",
    "ModelError",
    "ModelInfo",
    "OpAnswer",
    "OptionError",
    "Piece",
    "Prefill",
    "RawloopError",
    "Result",
    "SchemaError",
    "SessionFileError",
    "Stats",
    "Stream",
    "Text",
    "Thought",
    "TokenCounts",
    "Tool",
    "Totals",
    "__version__",
    "agenerate",
    "errors",
    "events",
    "generate",
    "ops",
    "schema",
    "settings",
]
