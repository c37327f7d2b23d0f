"""Opened models.

A model is opened once for each way to open it, and shared: conversations and operations with equal arguments use the same
weights and the same caches, one answer at a time. For answers that run beside each other, open it in several processes.
"""

from __future__ import annotations

import json
import os
import threading
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Union

from . import _native, streams
from .errors import ModelError
from .events import Answer, OpAnswer

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .settings import Settings

#: What names a model: nothing for the small one in this package, the path of a pack, the name of a pulled model, or a model that
#: is open.
ModelChoice = Union[None, str, "os.PathLike[str]", "Model"]

_open: weakref.WeakValueDictionary[tuple[Any, ...], Model] = weakref.WeakValueDictionary()
_opening = threading.Lock()


@dataclass(frozen=True)
class ModelInfo:
    """What a model is, and what runs it."""

    name: str
    synthetic: bool
    profile: str
    vocabulary: int
    backend: str
    kernels: str
    threads: int
    kv: str
    context: int
    has_drafter: bool


class Model:
    """A model and the backend that runs it.

    Args:
        path: A pack (``*.rlp``), or the name of a model that ``rawloop pull`` has fetched; without one, the small model in this
            package.
        backend: ``"cpu"``, ``"cuda"``, or ``"auto"`` for CUDA where there is a device.
        threads: Threads of the CPU backend; every number gives the same answers.
        affinity: Keep each thread on a core of its own.
        kernels: A kernel table by its name; the fastest without one.
        kv: Storage of keys and values: ``"f16"``, ``"f32"`` or ``"i8"``.
        context: Positions of context; what the model was trained for, at most 32,768, without a number.

    >>> import rawloop
    >>> model = rawloop.Model(threads=1)
    >>> model.info.backend, model.info.context
    ('cpu', 8192)
    >>> model.detokenize(model.tokenize("two words"))
    'two words'
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        backend: str = "cpu",
        threads: int | None = None,
        affinity: bool = False,
        kernels: str | None = None,
        kv: str = "f16",
        context: int | None = None,
    ) -> None:
        place = None if path is None else _place(path)
        #: What :meth:`shared` takes to open it again, elsewhere.
        self._arguments: dict[str, Any] = {
            "backend": backend,
            "threads": threads,
            "affinity": affinity,
            "kernels": kernels,
            "kv": kv,
            "context": context,
        }
        self._path = place
        self._native = _native.Model(place, backend, threads, affinity, kernels, kv, context)

    @classmethod
    def shared(cls, choice: ModelChoice = None, **arguments: Any) -> Model:
        """The open model of these arguments, opened where it is not."""
        given = {name: value for name, value in arguments.items() if value is not None}
        if isinstance(choice, Model):
            if given:
                raise TypeError(f"the model is open already, so {', '.join(given)} cannot be set")
            return choice
        place = None if choice is None else _place(choice)
        key = (place, *sorted(given.items()))
        with _opening:
            model = _open.get(key)
            if model is None:
                model = cls(place, **given)
                _open[key] = model
            return model

    @property
    def info(self) -> ModelInfo:
        """What it is, and what runs it."""
        return ModelInfo(**json.loads(self._native.info()))

    def tokenize(self, text: str, *, special_tokens: bool = False) -> list[int]:
        """The ids of a text; with ``special_tokens``, ``<|turn>`` and the like are control tokens and not text."""
        return self._native.tokenize(text, special_tokens)

    def detokenize(self, ids: list[int], *, special_tokens: bool = True) -> str:
        """The text of ids, control tokens spelled out or left away."""
        return self._native.detokenize(ids, special_tokens)

    def render(self, messages: list[dict[str, Any]], *, thinking: bool = False) -> str:
        """The text that the model reads for messages."""
        return self._native.render(json.dumps(messages), thinking)

    def stream_completion(
        self, prompt: str, *, special_tokens: bool = False, **settings: Unpack[Settings]
    ) -> streams.Stream:
        """Continues a text as it stands, without the chat format."""
        native = self._native.complete(prompt, json.dumps(settings), special_tokens)
        return streams.Stream(native, streams.plain_answer)

    def complete(self, prompt: str, *, special_tokens: bool = False, **settings: Unpack[Settings]) -> Answer:
        """Continues a text as it stands, without the chat format; the answer holds the continuation."""
        with self.stream_completion(prompt, special_tokens=special_tokens, **settings) as stream:
            answer: Answer = stream.finish()
            return answer

    def operation(
        self,
        name: str,
        *texts: str,
        piece_tokens: int | None = None,
        answer_tokens: int | None = None,
        **options: Any,
    ) -> OpAnswer:
        """Runs an operation of :mod:`rawloop.ops` by its name."""
        with self.stream_operation(
            name, *texts, piece_tokens=piece_tokens, answer_tokens=answer_tokens, **options
        ) as stream:
            answer: OpAnswer = stream.finish()
            return answer

    def stream_operation(
        self,
        name: str,
        *texts: str,
        piece_tokens: int | None = None,
        answer_tokens: int | None = None,
        **options: Any,
    ) -> streams.Stream:
        """Runs an operation; the events are pieces of a long text, and the answer where it is text."""
        given = {option: value for option, value in options.items() if value is not None}
        native = self._native.operation(name, list(texts), json.dumps(given), piece_tokens, answer_tokens)
        return streams.Stream(native, streams.operation_answer)

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self._path, self._arguments)

    def __repr__(self) -> str:
        info = self.info
        return f"<rawloop.Model {info.name} on {info.backend} ({info.kernels})>"


def _place(path: str | os.PathLike[str]) -> str:
    place = os.fspath(path)
    if os.path.isdir(place):
        raise ModelError(f"{place} is a folder: convert the checkpoint first (rawloop convert), and give the pack")
    return place


def _reopen(path: str | None, arguments: dict[str, Any]) -> Model:
    return Model.shared(path, **arguments)
