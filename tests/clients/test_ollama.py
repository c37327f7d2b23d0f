"""Ollama's own client."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import ollama
import pytest
from conftest import FRANCE, PARIS, REVIEW, SUM


def add(a: int, b: int) -> int:
    """Adds two numbers.

    Args:
        a: The first.
        b: The second.
    """
    return a + b


@pytest.fixture(scope="module")
def client(server: str) -> ollama.Client:
    return ollama.Client(host=server)


def ask(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


def test_models(client, model):
    names = [one.model for one in client.list().models]
    assert [name.removesuffix(":latest") for name in names] == [model]


def test_chat(client, model):
    answer = client.chat(model=model, messages=ask(FRANCE), options={"temperature": 0})
    assert answer.message.content == PARIS
    assert answer.done and answer.done_reason == "stop"
    assert answer.eval_count > 0 and answer.prompt_eval_count > 0


def test_stream(client, model):
    parts = list(client.chat(model=model, messages=ask(FRANCE), options={"temperature": 0}, stream=True))
    assert "".join(part.message.content or "" for part in parts) == PARIS
    assert [part.done for part in parts] == [False] * (len(parts) - 1) + [True]


def test_generate(client, model):
    whole = client.generate(model=model, prompt=FRANCE, options={"temperature": 0})
    assert whole.response == PARIS
    parts = client.generate(model=model, prompt=FRANCE, options={"temperature": 0}, stream=True)
    assert "".join(part.response for part in parts) == PARIS


def test_options(client, model):
    cut = client.chat(model=model, messages=ask(FRANCE), options={"temperature": 0, "num_predict": 2})
    assert cut.done_reason == "length" and cut.eval_count == 2
    stopped = client.chat(model=model, messages=ask(FRANCE), options={"temperature": 0, "stop": [" of"]})
    assert stopped.message.content == "The capital"
    story = [
        client.chat(
            model=model,
            messages=ask("Tell me a short story."),
            options={"temperature": 1.5, "seed": 3, "num_predict": 40},
        ).message.content
        for _ in range(2)
    ]
    assert story[0] == story[1]


def test_tools(client, model):
    answer = client.chat(model=model, messages=ask(SUM), tools=[add], options={"temperature": 0})
    (call,) = answer.message.tool_calls
    assert call.function.name == "add"
    assert dict(call.function.arguments) == {"a": 12, "b": 30}
    messages = [*ask(SUM), answer.message, {"role": "tool", "tool_name": "add", "content": "42"}]
    assert "42" in client.chat(model=model, messages=messages, tools=[add], options={"temperature": 0}).message.content


def test_streamed_tools(client, model):
    parts = client.chat(model=model, messages=ask(SUM), tools=[add], options={"temperature": 0}, stream=True)
    calls = [call for part in parts for call in part.message.tool_calls or []]
    assert [dict(call.function.arguments) for call in calls] == [{"a": 12, "b": 30}]


def test_json_schema(client, model):
    answer = client.chat(
        model=model, messages=ask("I love this film!"), format=REVIEW, options={"temperature": 0}
    )
    assert set(json.loads(answer.message.content)) == {"sentiment", "stars"}


def test_thinking(client, model):
    answer = client.chat(model=model, messages=ask(SUM), think=True, options={"temperature": 0})
    assert answer.message.thinking
    assert "42" in answer.message.content
    assert not client.chat(model=model, messages=ask(SUM), think=False, options={"temperature": 0}).message.thinking


def test_asynchronous(server, model):
    async def main() -> str:
        client = ollama.AsyncClient(host=server)
        parts = await client.chat(model=model, messages=ask(FRANCE), options={"temperature": 0}, stream=True)
        return "".join([part.message.content or "" async for part in parts])

    assert asyncio.run(main()) == PARIS


def test_errors(client, model):
    with pytest.raises(ollama.ResponseError) as missing:
        client.chat(model="another", messages=ask(FRANCE))
    assert missing.value.status_code == 404
    with pytest.raises(ollama.ResponseError) as wrong:
        client.chat(model=model, messages=ask(FRANCE), options={"temperature": -1})
    assert wrong.value.status_code == 400 and "temperature" in wrong.value.error


def test_pull_is_refused_where_the_server_may_not_write(client):
    with pytest.raises(ollama.ResponseError, match="rawloop serve --pull") as refused:
        client.pull("gemma-4-e2b")
    assert refused.value.status_code == 403
