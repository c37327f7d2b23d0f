"""LiteLLM, over both interfaces of the server."""

from __future__ import annotations

import json
from typing import Any

import litellm
import pytest
from conftest import ADD, FRANCE, PARIS, REVIEW, SUM

FORMAT = {"type": "json_schema", "json_schema": {"name": "review", "schema": REVIEW, "strict": True}}


@pytest.fixture(scope="module", params=["openai", "ollama_chat"])
def complete(request: pytest.FixtureRequest, server: str, model: str) -> Any:
    base = f"{server}/v1" if request.param == "openai" else server

    def call(text: str, **settings: Any) -> Any:
        return litellm.completion(
            model=f"{request.param}/{model}",
            api_base=base,
            api_key="none",
            temperature=0,
            messages=[{"role": "user", "content": text}],
            num_retries=0,
            **settings,
        )

    call.openai = request.param == "openai"  # type: ignore[attr-defined]
    return call


def test_chat(complete):
    answer = complete(FRANCE)
    assert answer.choices[0].message.content == PARIS
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.completion_tokens > 0


def test_stream(complete):
    chunks = list(complete(FRANCE, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == PARIS
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_tools(complete):
    # Ollama's interface has no way to require a call.
    settings: Any = {"tool_choice": "required"} if complete.openai else {}
    answer = complete(SUM, tools=[ADD], **settings)
    call = answer.choices[0].message.tool_calls[0]
    assert call.function.name == "add"
    assert json.loads(call.function.arguments) == {"a": 12, "b": 30}
    assert answer.choices[0].finish_reason == "tool_calls"


def test_json_schema(complete):
    value = json.loads(complete("I love this film!", response_format=FORMAT).choices[0].message.content)
    assert set(value) == {"sentiment", "stars"}


def test_errors_are_typed(server, model):
    with pytest.raises(litellm.NotFoundError):
        litellm.completion(
            model="openai/another", api_base=f"{server}/v1", api_key="none", messages=[{"role": "user", "content": "x"}]
        )
    with pytest.raises(litellm.BadRequestError):
        litellm.completion(
            model=f"openai/{model}",
            api_base=f"{server}/v1",
            api_key="none",
            messages=[{"role": "user", "content": "x"}],
            temperature=-1,
        )
