"""Conversations.

>>> import rawloop
>>> chat = rawloop.ChatSession(temperature=0)
>>> print(chat.respond("What is the capital of France?"))
The capital of France is Paris.
>>> [message["role"] for message in chat.messages]
['user', 'assistant']
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Iterable, Sequence, Union

from . import schema as _schema
from . import streams, tools as _tools
from .errors import AnswerError, OptionError
from .events import Answer, Event
from .model import Model, ModelChoice

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from . import _native
    from .settings import ChatSettings

#: What is asked: a text, a message in OpenAI's shape, or several.
Prompt = Union[str, dict[str, Any], Sequence[dict[str, Any]]]
#: Functions that the model may call.
Tools = Iterable[Union[_tools.Tool, Callable[..., Any]]]


@dataclass(frozen=True)
class TokenCounts:
    """How many tokens a conversation takes: instructions and tools, the whole history, the prompt of an answer to it."""

    system: int
    history: int
    prompt: int
    context: int

    @property
    def free(self) -> int:
        """Positions left behind the history."""
        return max(0, self.context - self.history)


@dataclass(frozen=True)
class Totals:
    """Work of a conversation so far."""

    turns: int
    prompt_tokens: int
    reused_tokens: int
    tokens: int


class ChatSession:
    """A conversation.

    Args:
        model: Nothing for the small model in this package, the path of a pack, the name of a pulled model, or a :class:`Model`.
        backend, threads, affinity, kernels, kv, context: As :class:`Model` takes them.
        tools: Functions that the model may call in any turn: see :class:`Tool`.
        approve: Asked before each call; false, or a text with the reason, refuses it.
        settings: See :class:`rawloop.settings.ChatSettings`.

    A conversation answers one turn at a time; a second one meanwhile is a :class:`BusyError`. Several conversations may
    answer from several threads: they take turns on a shared model. No call holds the interpreter's lock while it computes.

    >>> import rawloop
    >>> chat = rawloop.ChatSession(temperature=0, system="Answer in one word.")
    >>> chat.tokens.system > 0
    True
    """

    def __init__(
        self,
        model: ModelChoice = None,
        *,
        backend: str | None = None,
        threads: int | None = None,
        affinity: bool | None = None,
        kernels: str | None = None,
        kv: str | None = None,
        context: int | None = None,
        tools: Tools | None = None,
        approve: _tools.Approve | None = None,
        **settings: Unpack[ChatSettings],
    ) -> None:
        self._model = Model.shared(
            model,
            backend=backend,
            threads=threads,
            affinity=affinity,
            kernels=kernels,
            kv=kv,
            context=context,
        )
        self._tools = _tools.tools_of(tools or ())
        self._approve = approve
        self._settings: dict[str, Any] = dict(settings)
        text, self._build = _read_settings(self._settings)
        self._native = self._model._native.chat(text)

    # Answering

    def respond(
        self,
        prompt: Prompt,
        *,
        tools: Tools | None = None,
        approve: _tools.Approve | None = None,
        tool_choice: Any = "auto",
        rounds: int = 8,
        most_calls: int = 16,
        on_event: Callable[[Event], object] | None = None,
        **settings: Unpack[ChatSettings],
    ) -> Answer:
        """Answers, and waits for the answer. Ctrl-C ends it within a token.

        Args:
            prompt: A text, or messages in OpenAI's shape.
            tools: Functions that the model may call in this turn, in place of the conversation's.
            approve: Asked before each call, in place of the conversation's.
            tool_choice: ``"auto"``, ``"none"``, ``"required"``, or the name of a tool that must be called.
            rounds: Rounds of calls at most.
            most_calls: Calls in one answer at most.
            on_event: Sees every event.
            settings: For this turn alone.

        >>> from dataclasses import dataclass
        >>> import rawloop
        >>> @dataclass
        ... class Person:
        ...     name: str
        ...     age: int
        >>> chat = rawloop.ChatSession(temperature=0)
        >>> answer = chat.respond("Extract name and age as JSON: Ida is 42 years old.", schema=Person)
        >>> type(answer.value).__name__
        'Person'
        """
        _refuse_coroutines(self._tools if tools is None else tools, approve or self._approve)
        stream = self.stream(
            prompt,
            tools=tools,
            approve=approve,
            tool_choice=tool_choice,
            rounds=rounds,
            most_calls=most_calls,
            **settings,
        )
        with stream:
            for event in stream:
                if on_event is not None:
                    on_event(event)
        answer: Answer = stream.answer
        return answer

    def stream(
        self,
        prompt: Prompt,
        *,
        tools: Tools | None = None,
        approve: _tools.Approve | None = None,
        tool_choice: Any = "auto",
        rounds: int = 8,
        most_calls: int = 16,
        **settings: Unpack[ChatSettings],
    ) -> streams.Stream:
        """Answers as an iterator of events; the arguments are those of :meth:`respond`."""
        how = (tools, approve, tool_choice, rounds, most_calls)
        return streams.Stream(*self._begin(prompt, how, dict(settings)))

    def astream(
        self,
        prompt: Prompt,
        *,
        tools: Tools | None = None,
        approve: _tools.Approve | None = None,
        tool_choice: Any = "auto",
        rounds: int = 8,
        most_calls: int = 16,
        **settings: Unpack[ChatSettings],
    ) -> streams.AsyncStream:
        """Answers as an asynchronous iterator of events. Tools and ``approve`` may be coroutine functions."""
        how = (tools, approve, tool_choice, rounds, most_calls)
        return streams.AsyncStream(*self._begin(prompt, how, dict(settings)))

    async def arespond(
        self,
        prompt: Prompt,
        *,
        tools: Tools | None = None,
        approve: _tools.Approve | None = None,
        tool_choice: Any = "auto",
        rounds: int = 8,
        most_calls: int = 16,
        **settings: Unpack[ChatSettings],
    ) -> Answer:
        """Answers, and lets the event loop go on meanwhile. Cancelling the task cancels the answer.

        >>> import asyncio, rawloop
        >>> chat = rawloop.ChatSession(temperature=0)
        >>> print(asyncio.run(chat.arespond("What is the capital of Spain?")))
        The capital of Spain is Madrid.
        """
        how = (tools, approve, tool_choice, rounds, most_calls)
        async with streams.AsyncStream(*self._begin(prompt, how, dict(settings))) as stream:
            answer: Answer = await stream.finish()
            return answer

    def _begin(
        self, prompt: Prompt, how: tuple[Any, ...], settings: dict[str, Any]
    ) -> tuple[_native.Stream, streams.Finish, list[_tools.Tool], _tools.Approve | None]:
        given, approve, choice, rounds, most_calls = how
        functions = self._tools if given is None else _tools.tools_of(given)
        text, build = _read_settings(settings)
        formed = any(settings.get(name) is not None for name in ("schema", "regex", "choice", "grammar", "gbnf"))
        finish = _finisher(build if formed else self._build)
        if not functions:
            if choice not in ("auto", "none"):
                raise OptionError(f"`tool_choice` is {choice!r}: there are no tools to choose from")
            native = self._native.send(json.dumps(_messages(prompt)), text)
            return native, finish, [], None
        if not isinstance(prompt, str):
            raise OptionError("a turn with tools begins with a text: set `messages` for what came before it")
        names = [tool.name for tool in functions]
        if isinstance(choice, str) and choice not in ("auto", "none", "required"):
            if choice not in names:
                raise OptionError(f"`tool_choice` is {choice!r}: the tools are {', '.join(names)}")
            choice = {"type": "function", "function": {"name": choice}}
        declared = json.dumps([tool.declaration() for tool in functions])
        native = self._native.send_with_tools(prompt, text, declared, (json.dumps(choice), rounds, most_calls))
        return native, finish, functions, approve or self._approve

    def cancel(self) -> None:
        """Ends the turn that is running, from any thread, within a token. Its answer then ends with ``cancelled``."""
        self._native.cancel()

    @property
    def is_running(self) -> bool:
        """Whether a turn is running."""
        return self._native.is_running()

    # The history

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The history, in OpenAI's shape and without the system prompt. Assign a list to replace it."""
        messages: list[dict[str, Any]] = json.loads(self._native.messages())
        return messages

    @messages.setter
    def messages(self, messages: Sequence[dict[str, Any]]) -> None:
        self._native.set_messages(json.dumps(list(messages)))

    @property
    def turns(self) -> int:
        """Turns in the history: each a question with all that follows from it."""
        return self._native.turns()

    def clear(self) -> None:
        """Empties the history."""
        self.messages = []

    def edit(self, index: int, text: str) -> None:
        """Changes the text of message ``index``; what came later stays.

        >>> import rawloop
        >>> chat = rawloop.ChatSession(temperature=0)
        >>> _ = chat.respond("Hello!")
        >>> chat.edit(0, "Good morning!")
        >>> chat.messages[0]["content"]
        'Good morning!'
        """
        count = len(self.messages)
        at = index + count if index < 0 else index
        if at < 0 or not self._native.edit_message(at, text):
            raise IndexError(f"there is no message {index}: the history has {count}")

    def rewind(self, turn: int = -1) -> list[dict[str, Any]]:
        """Takes a turn and everything behind it out of the history, and hands it out; the last one without a number."""
        removed: list[dict[str, Any]] = json.loads(self._native.rewind(self._turn(turn)))
        return removed

    def remove_turn(self, turn: int) -> list[dict[str, Any]]:
        """Takes one turn out of the history; what came later stays."""
        removed: list[dict[str, Any]] = json.loads(self._native.remove_turn(self._turn(turn)))
        return removed

    def _turn(self, turn: int) -> int:
        at = turn + self.turns if turn < 0 else turn
        if at < 0:
            raise IndexError(f"there is no turn {turn}: the conversation has {self.turns}")
        return at

    def fork(self) -> ChatSession:
        """Another conversation with the same history, settings and tools. What the caches hold serves both."""
        other = object.__new__(ChatSession)
        other.__dict__.update(self.__dict__)
        other._settings = dict(self._settings)
        other._native = self._native.fork()
        return other

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the conversation to a file: the old file or the new one is there at any time."""
        self._native.save(os.fspath(path))

    def load(self, path: str | os.PathLike[str]) -> None:
        """Goes on with the conversation of a file in place of this one, settings included. Tools stay."""
        self._native.load(os.fspath(path))

    # Settings and numbers

    @property
    def model(self) -> Model:
        """The model."""
        return self._model

    @property
    def tools(self) -> list[_tools.Tool]:
        """What the model may call in any turn."""
        return list(self._tools)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings as they are, the model's own and the seed included."""
        settings: dict[str, Any] = json.loads(self._native.settings())
        return settings

    def configure(self, **settings: Unpack[ChatSettings]) -> None:
        """Changes settings from the next turn on.

        >>> import rawloop
        >>> chat = rawloop.ChatSession()
        >>> chat.configure(temperature=0.5, system="Be brief.")
        >>> chat.settings["temperature"], chat.settings["system"]
        (0.5, 'Be brief.')
        """
        merged = dict(settings)
        text, build = _read_settings(merged)
        self._native.configure(text)
        self._settings.update(merged)
        if build is not None:
            self._build = build

    @property
    def tokens(self) -> TokenCounts:
        """How many tokens the conversation takes."""
        return TokenCounts(*self._native.token_counts())

    def cost(self, text: str) -> int:
        """How many tokens a text would add as the next question."""
        return self._native.cost(text)

    @property
    def totals(self) -> Totals:
        """Work so far."""
        return Totals(*self._native.totals())

    def prepare(self) -> None:
        """Begins to prepare the vocabulary for answers with a form, which the first of them would wait for otherwise."""
        self._native.prepare_constraints()

    def __reduce__(self) -> tuple[Any, ...]:
        return _resume, (self._model, self._tools, self._approve, self._settings, self._native.dump())

    def __repr__(self) -> str:
        return f"<rawloop.ChatSession of {self.turns} turns on {self._model.info.name}>"


def _resume(
    model: Model,
    tools: list[_tools.Tool],
    approve: _tools.Approve | None,
    settings: dict[str, Any],
    saved: str,
) -> ChatSession:
    chat = ChatSession(model, tools=tools, approve=approve, **settings)
    chat._native.restore(saved)
    return chat


def _messages(prompt: Prompt) -> list[dict[str, Any]]:
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    if isinstance(prompt, dict):
        return [prompt]
    return list(prompt)


def _read_settings(settings: dict[str, Any]) -> tuple[str, Callable[[Any], Any] | None]:
    """Settings as JSON, and what makes values of the schema's type."""
    crossing: dict[str, Any] = dict(settings)
    build = None
    if crossing.get("schema") is not None:
        crossing["schema"], build = _schema.of(crossing["schema"])
    try:
        return json.dumps(crossing, allow_nan=False), build
    except (TypeError, ValueError) as error:
        raise OptionError(f"a setting is no plain value: {error}") from error


def _finisher(build: Callable[[Any], Any] | None) -> streams.Finish:
    if build is None:
        return streams.plain_answer

    def finish(data: dict[str, Any]) -> Answer:
        answer = streams.plain_answer(data)
        if answer.finish == "cancelled":
            return answer
        try:
            answer.value = build(json.loads(answer.text))
        except ValueError as error:
            tokens, reason = answer.stats.tokens, answer.finish
            raise AnswerError(
                f"the answer of {tokens} tokens (ended by {reason}) is not of the schema: {error}; raise max_tokens or "
                f"bound what the schema lets grow. It begins {answer.text[:80]!r}"
            ) from error
        return answer

    return finish


def _refuse_coroutines(tools: Tools, approve: _tools.Approve | None) -> None:
    functions = [tool.function if isinstance(tool, _tools.Tool) else tool for tool in tools]
    for function in [*functions, approve]:
        if inspect.iscoroutinefunction(function):
            name = getattr(function, "__name__", repr(function))
            raise OptionError(f"`{name}` is a coroutine function: use arespond or astream")


def generate(
    prompt: Prompt,
    *,
    model: ModelChoice = None,
    raw: bool = False,
    special_tokens: bool = False,
    tools: Tools | None = None,
    approve: _tools.Approve | None = None,
    **settings: Unpack[ChatSettings],
) -> Answer:
    """Answers one prompt, as ``rawloop run`` does; with ``raw``, continues the text as it stands.

    >>> import rawloop
    >>> print(rawloop.generate("What is the capital of France?", temperature=0))
    The capital of France is Paris.
    """
    if raw:
        if not isinstance(prompt, str) or tools is not None or "system" in settings:
            raise OptionError("`raw` continues one text: it has no messages, system prompt or tools")
        return _opened(model).complete(prompt, special_tokens=special_tokens, **settings)  # type: ignore[misc]
    return ChatSession(_opened(model), tools=tools, approve=approve, **settings).respond(prompt)


async def agenerate(
    prompt: Prompt,
    *,
    model: ModelChoice = None,
    tools: Tools | None = None,
    approve: _tools.Approve | None = None,
    **settings: Unpack[ChatSettings],
) -> Answer:
    """As :func:`generate`, for an event loop, which goes on meanwhile."""
    opened = await asyncio.to_thread(_opened, model)
    return await ChatSession(opened, tools=tools, approve=approve, **settings).arespond(prompt)


#: The model that :func:`generate` and the operations used last: it stays open for the next call.
_last: Model | None = None


def _opened(choice: ModelChoice) -> Model:
    global _last
    _last = Model.shared(choice)
    return _last
