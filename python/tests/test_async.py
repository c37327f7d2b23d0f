"""Answers in an event loop."""

from __future__ import annotations

import asyncio

import pytest

import rawloop
from conftest import still_answers


def test_the_stream_is_the_answer(chat):
    async def main():
        stream = chat.astream("Tell me a short story.")
        events = [event async for event in stream]
        return events, stream.answer

    events, answer = asyncio.run(main())
    assert "".join(event.text for event in events if isinstance(event, rawloop.Text)) == answer.text
    assert answer.text == rawloop.generate("Tell me a short story.", temperature=0).text


def test_the_loop_goes_on_meanwhile(chat, endless):
    async def main():
        beats = 0
        answer = asyncio.ensure_future(chat.arespond("Tell me a short story.", **{**endless, "max_tokens": 300}))
        while not answer.done():
            beats += 1
            await asyncio.sleep(0)
        return beats, await answer

    beats, answer = asyncio.run(main())
    assert answer.stats.tokens == 300
    assert beats > 10


def test_many_answers_at_once_need_no_threads_of_the_loop():
    """More than the loop's executor has threads, each with a tool in that executor."""

    def add(a: int, b: int) -> int:
        """Adds two numbers."""
        return a + b

    async def one(index: int) -> str:
        chat = rawloop.ChatSession(temperature=0)
        answer = await chat.arespond(f"What is {index} + 30?", tools=[add], tool_choice="required")
        return answer.results[0].text

    async def main():
        return await asyncio.gather(*(one(index) for index in range(40)))

    results = asyncio.run(main())
    assert len(results) == 40
    assert all(result.isdigit() for result in results)


def test_cancelling_the_task_cancels_the_answer(chat, endless):
    async def main():
        begun = asyncio.Event()

        async def read():
            async for event in chat.astream("Tell me a short story.", **endless):
                if isinstance(event, rawloop.Text):
                    begun.set()

        task = asyncio.create_task(read())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        # It waits for the end of the cancelled one.
        return await chat.arespond("Hello!")

    assert asyncio.run(main()).text
    assert still_answers(chat)
    assert chat.totals.tokens < endless["max_tokens"]


def test_leaving_the_loop_cancels_the_answer(chat, endless):
    async def main():
        async with chat.astream("Tell me a short story.", **endless) as stream:
            async for event in stream:
                if isinstance(event, rawloop.Text):
                    break
        # It waits for the end of the cancelled one.
        return await chat.arespond("Hello!")

    assert asyncio.run(main()).text
    assert still_answers(chat)


def test_a_loop_that_ends_first_is_no_trouble(chat, endless):
    async def main():
        stream = chat.astream("Tell me a short story.", **endless)
        await stream.__anext__()
        return stream

    stream = asyncio.run(main())
    stream.cancel()
    chat.respond("What is the capital of France?")
    assert chat.turns >= 1


def test_tools_and_approval_may_be_coroutines(chat):
    asked = []

    async def add(a: int, b: int) -> int:
        """Adds two numbers."""
        await asyncio.sleep(0)
        return a + b

    async def approve(call: rawloop.Call) -> bool:
        await asyncio.sleep(0)
        asked.append(call.name)
        return True

    answer = asyncio.run(
        chat.arespond("What is 12 + 30?", tools=[add], approve=approve, tool_choice="required")
    )
    assert asked == ["add"]
    assert answer.results[0].text == "42"
    with pytest.raises(rawloop.OptionError, match="arespond"):
        chat.respond("What is 12 + 30?", tools=[add])


def test_agenerate():
    answer = asyncio.run(rawloop.agenerate("What is the capital of France?", temperature=0))
    assert answer.text == "The capital of France is Paris."
