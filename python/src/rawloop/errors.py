"""What can go wrong.

Every error of this package is a :class:`RawloopError`. Messages say what was wrong, where, and what to do.

>>> import rawloop
>>> try:
...     rawloop.generate("Hello", temperature=-1)
... except rawloop.OptionError as error:
...     print(error)
temperature is -1: expected a number from 0 to 100
"""

from __future__ import annotations


class RawloopError(Exception):
    """The base of all errors of this package."""


class ModelError(RawloopError):
    """A model cannot be opened: no such file, damaged, not a model that this version runs."""


class OptionError(RawloopError, ValueError):
    """A setting that does not exist, is of another type or out of its range."""


class SchemaError(OptionError):
    """A JSON schema, regular expression, grammar or tool that no answer can be held to."""


class MessageError(RawloopError, ValueError):
    """Messages that cannot be put to the model, or a turn that is not in the history."""


class ContextError(RawloopError):
    """The prompt leaves no room for an answer in the model's context."""


class BusyError(RawloopError):
    """The conversation is answering: wait for the end of its turn, cancel it, or fork the conversation."""


class SessionFileError(RawloopError):
    """A stored conversation cannot be written, read, or gone on with."""


class AnswerError(RawloopError):
    """The answer does not have the form that was asked for, since it was cut before it was complete."""


class CancelledError(RawloopError):
    """An operation was cancelled."""


class BackendError(RawloopError):
    """What runs the model failed."""
