"""LangChain's class for OpenAI."""

from __future__ import annotations

from typing import Literal

import pydantic
import pytest
from conftest import FRANCE, PARIS, REVIEW, SUM
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI


class Review(pydantic.BaseModel):
    """What somebody thinks of a film."""

    sentiment: Literal["positive", "negative"]
    stars: Literal[1, 2, 3, 4, 5]


@tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@pytest.fixture(scope="module")
def chat(server: str, model: str) -> ChatOpenAI:
    return ChatOpenAI(model=model, base_url=f"{server}/v1", api_key="none", temperature=0, max_retries=0)


def test_chat(chat):
    answer = chat.invoke([SystemMessage("You are helpful."), HumanMessage(FRANCE)])
    assert "Paris" in answer.content
    assert answer.usage_metadata["output_tokens"] > 0
    assert answer.response_metadata["finish_reason"] == "stop"


def test_stream(chat):
    chunks = list(chat.stream(FRANCE))
    assert "".join(str(chunk.content) for chunk in chunks) == PARIS
    assert len(chunks) > 2


def test_tools(chat):
    asked = HumanMessage(SUM)
    answer = chat.bind_tools([add], tool_choice="required").invoke([asked])
    (call,) = answer.tool_calls
    assert (call["name"], call["args"]) == ("add", {"a": 12, "b": 30})
    result = ToolMessage(str(add.invoke(call["args"])), tool_call_id=call["id"])
    assert "42" in chat.bind_tools([add]).invoke([asked, answer, result]).content


def test_streamed_tools(chat):
    whole = None
    for chunk in chat.bind_tools([add], tool_choice="required").stream(SUM):
        whole = chunk if whole is None else whole + chunk
    assert [(call["name"], call["args"]) for call in whole.tool_calls] == [("add", {"a": 12, "b": 30})]


@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
def test_json_schema(chat, method):
    answer = chat.with_structured_output(Review, method=method).invoke("I love this film!")
    assert isinstance(answer, Review)


def test_a_plain_schema(chat):
    schema = {"title": "Review", "description": "What somebody thinks of a film.", **REVIEW}
    answer = chat.with_structured_output(schema, method="json_schema").invoke("I love this film!")
    assert set(answer) == {"sentiment", "stars"}


def test_batch(chat):
    answers = chat.batch([FRANCE] * 6)
    assert [answer.content for answer in answers] == [PARIS] * 6
