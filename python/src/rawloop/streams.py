"""Answers while they are made: :class:`Stream` for ``for``, :class:`AsyncStream` for ``async for``.

The answer is made on a thread of its own, without the interpreter's lock. Leaving the loop early cancels it: so do
``close()``, the end of a ``with`` block, and dropping the stream. What was shown until then is in the history.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, Any, AsyncIterator, Callable, Iterator

from . import errors, tools
from .events import Answer, Call, Done, Event, OpAnswer, Piece, Prefill, Result, Text, Thought

if TYPE_CHECKING:
    from . import _native

#: What makes the answer of the native one: adds what the schema says about it.
Finish = Callable[[dict[str, Any]], Any]


class _Reader:
    """What both kinds of streams share."""

    def __init__(
        self,
        native: _native.Stream,
        finish: Finish,
        functions: list[tools.Tool] | None = None,
        approve: tools.Approve | None = None,
    ) -> None:
        self._native = native
        self._finish = finish
        self._functions = {tool.name: tool for tool in functions or []}
        self._approve = approve
        self._events: deque[tuple[Any, ...]] = deque()
        self._answer: Any = None
        self._closed = False

    @property
    def answer(self) -> Any:
        """The whole answer, once the last event has been read; None before."""
        return self._answer

    def cancel(self) -> None:
        """Ends the answer within a token, or a chunk of the prompt. What came so far can still be read."""
        self._native.cancel()

    def _event(self, kind: str, rest: tuple[Any, ...]) -> Event:
        if kind == "text":
            return Text(*rest)
        if kind == "prefill":
            return Prefill(*rest)
        if kind == "thought":
            return Thought(*rest)
        if kind == "call":
            return Call(rest[0], json.loads(rest[1]))
        if kind == "result":
            return Result(rest[1], rest[2], rest[0])
        if kind == "piece":
            return Piece(*rest)
        self._closed = True
        if kind == "failed":
            raise getattr(errors, rest[0])(rest[1])
        self._answer = self._finish(json.loads(rest[0]))
        return Done(self._answer)

    def _ended(self) -> None:
        """The native stream has no more events."""
        if not self._closed:
            self._closed = True
            raise errors.BackendError("the answer ended without a result")

    def _call(self, rest: tuple[Any, ...]) -> tuple[Call, tools.Tool]:
        _, call_id, name, arguments = rest
        return Call(name, json.loads(arguments), call_id), self._functions[name]

    def _give(self, result: Any) -> None:
        try:
            self._native.reply(tools.as_json(result))
        except (TypeError, ValueError) as error:
            self._native.refuse(f"the result is no JSON: {tools.failure(error)}")


class Stream(_Reader):
    """An answer as an iterator of events. Functions that the model calls run on the thread that reads it.

    >>> import rawloop
    >>> stream = rawloop.ChatSession(temperature=0).stream("What is the capital of Italy?")
    >>> "".join(stream.texts()), stream.answer.finish
    ('The capital of Italy is Rome.', 'stop')
    """

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        try:
            while True:
                while not self._events:
                    if self._closed:
                        raise StopIteration
                    events = self._native.wait()
                    if events is None:
                        self._ended()
                        raise StopIteration
                    self._events.extend(events)
                kind, *rest = self._events.popleft()
                if kind != "ask":
                    return self._event(kind, tuple(rest))
                self._run(tuple(rest))
        except StopIteration:
            raise
        except BaseException:
            self.close()
            raise

    def _run(self, rest: tuple[Any, ...]) -> None:
        call, tool = self._call(rest)
        try:
            approved = True if self._approve is None else self._approve(call)
            if inspect.isawaitable(approved):
                raise errors.OptionError("`approve` is a coroutine: use arespond or astream")
            reason = tools.refusal(approved)
            if reason is not None:
                self._native.refuse(reason)
                return
            result = tool.function(**tool.arguments(call.arguments))
        except errors.OptionError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a tool raises is the model's to read
            self._native.refuse(tools.failure(error))
            return
        self._give(result)

    def texts(self) -> Iterator[str]:
        """The visible text alone."""
        for event in self:
            if isinstance(event, Text):
                yield event.text

    def finish(self) -> Any:
        """Reads to the end; the answer."""
        for _ in self:
            pass
        return self._answer

    def close(self) -> None:
        """Cancels what is not read yet."""
        self._closed = True
        self._events.clear()
        self._native.cancel()

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncStream(_Reader):
    """An answer as an asynchronous iterator of events.

    No thread waits for it: the thread that makes the answer wakes the loop. Functions that the model calls run in a thread
    of the loop's executor, coroutine functions in the loop itself.

    >>> import asyncio, rawloop
    >>> async def main():
    ...     stream = rawloop.ChatSession(temperature=0).astream("What is the capital of Italy?")
    ...     return "".join([text async for text in stream.texts()])
    >>> asyncio.run(main())
    'The capital of Italy is Rome.'
    """

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        try:
            while True:
                while not self._events:
                    if self._closed:
                        raise StopAsyncIteration
                    events = self._native.ready()
                    if events is None:
                        self._ended()
                        raise StopAsyncIteration
                    if events:
                        self._events.extend(events)
                    else:
                        await self._something()
                kind, *rest = self._events.popleft()
                if kind != "ask":
                    return self._event(kind, tuple(rest))
                await self._run(tuple(rest))
        except StopAsyncIteration:
            raise
        except BaseException:
            await self.aclose()
            raise

    async def _something(self) -> None:
        """Waits for an event."""
        loop = asyncio.get_running_loop()
        woken = asyncio.Event()
        if self._native.arm(lambda: loop.call_soon_threadsafe(woken.set)):
            await woken.wait()

    async def _run(self, rest: tuple[Any, ...]) -> None:
        call, tool = self._call(rest)
        try:
            approved = True if self._approve is None else self._approve(call)
            if inspect.isawaitable(approved):
                approved = await approved
            reason = tools.refusal(approved)
            if reason is not None:
                self._native.refuse(reason)
                return
            arguments = tool.arguments(call.arguments)
            if inspect.iscoroutinefunction(tool.function):
                result = await tool.function(**arguments)
            else:
                result = await asyncio.to_thread(tool.function, **arguments)
                if inspect.isawaitable(result):
                    result = await result
        except Exception as error:  # noqa: BLE001 - whatever a tool raises is the model's to read
            self._native.refuse(tools.failure(error))
            return
        self._give(result)

    async def texts(self) -> AsyncIterator[str]:
        """The visible text alone."""
        async for event in self:
            if isinstance(event, Text):
                yield event.text

    async def finish(self) -> Any:
        """Reads to the end; the answer."""
        async for _ in self:
            pass
        return self._answer

    async def aclose(self) -> None:
        """Cancels what is not read yet."""
        self._closed = True
        self._events.clear()
        self._native.cancel()

    async def __aenter__(self) -> AsyncStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def operation_answer(data: dict[str, Any]) -> OpAnswer:
    """What an operation's stream finishes with."""
    return OpAnswer(**data)


def plain_answer(data: dict[str, Any]) -> Answer:
    """What an answer without a schema finishes with."""
    return Answer._of(data)
