"""The names and types of settings.

What is not set is the model's own. The same names, with ``-`` for ``_``, are flags of ``rawloop run``.
"""

from __future__ import annotations

from typing import Any, TypedDict, Union


class Settings(TypedDict, total=False):
    """How an answer is made: for a conversation, or for one turn."""

    #: Let the model think first; a number bounds the tokens of its thought.
    thinking: Union[bool, int]
    #: Tokens of an answer at most (2048).
    max_tokens: int
    #: Texts that end the answer and are not part of it.
    stop: Union[str, list[str]]
    #: End an answer that repeats itself without end (True).
    detect_loops: bool
    #: Prompt tokens per step (what suits what runs the model: 256, on a CUDA device 1024); changes the time and nothing else.
    chunk: int
    #: ``"auto"``, ``"off"``, ``"lookup"`` or a number of drafts; changes the time and nothing else.
    draft: Union[str, int]
    #: 0 takes the likeliest token every time.
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    typical: float
    repetition: float
    presence: float
    frequency: float
    dry: float
    dry_base: float
    dry_length: int
    #: How many of the last tokens count for the penalties; 0 counts all.
    penalty_window: int
    #: The same seed gives the same answer; without one each conversation has another.
    seed: int
    #: Added to the logits of single ids.
    bias: dict[int, float]
    #: Report how likely each token was, and so many alternatives.
    logprobs: int
    #: One of the following five gives the answer a form. A schema may be a type: see :mod:`rawloop.schema`.
    schema: Any
    regex: str
    choice: list[str]
    #: A grammar in Lark's notation.
    grammar: str
    #: A grammar in GBNF.
    gbnf: str


class ChatSettings(Settings, total=False):
    """Settings of a conversation."""

    #: Instructions before the first message; an empty text takes them away.
    system: str
