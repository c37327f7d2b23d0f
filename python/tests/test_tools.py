"""Python functions as tools."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal, Optional

import pytest

import rawloop
from conftest import still_answers
from rawloop import Tool


def add(a: int, b: int) -> int:
    """Adds two numbers.

    Args:
        a: The first
            of them.
        b (int): The second.

    Returns:
        int: The sum.
    """
    return a + b


def test_a_function_is_called_and_the_answer_uses_its_result(chat):
    events: list[Any] = []
    answer = chat.respond("What is 12 + 30?", tools=[add], tool_choice="required", on_event=events.append)
    assert [(result.name, result.arguments, result.text) for result in answer.results] == [
        ("add", {"a": 12, "b": 30}, "42")
    ]
    assert "42" in answer.text
    kinds = [type(event).__name__ for event in events if not isinstance(event, (rawloop.Prefill, rawloop.Text))]
    assert kinds == ["Call", "Result", "Done"]
    assert [message["role"] for message in chat.messages] == ["user", "assistant", "tool", "assistant"]


def test_it_runs_on_the_thread_that_reads(chat):
    threads = []

    def now(zone: Literal["UTC", "CET"]) -> str:
        """The time."""
        threads.append(threading.current_thread())
        return "12:00"

    chat.respond("What time is it?", tools=[now], tool_choice="now", rounds=1)
    assert threads[0] is threading.current_thread()


@pytest.mark.parametrize("verdict, told", [(False, "did not allow"), ("not on Mondays", "not on Mondays")])
def test_a_call_that_is_not_approved_does_not_run(chat, verdict, told):
    ran = []

    def add(a: int, b: int) -> int:
        """Adds two numbers."""
        ran.append((a, b))
        return a + b

    seen = []

    def approve(call: rawloop.Call) -> Any:
        seen.append(call)
        return verdict

    answer = chat.respond("What is 12 + 30?", tools=[add], approve=approve, tool_choice="required", rounds=1)
    assert ran == []
    assert seen[0].name == "add" and seen[0].arguments == {"a": 12, "b": 30} and seen[0].id
    assert told in answer.results[0].text


def test_a_tool_that_fails_tells_the_model(chat):
    def add(a: int, b: int) -> int:
        """Adds two numbers."""
        raise OverflowError("too large")

    answer = chat.respond("What is 12 + 30?", tools=[add], tool_choice="required", rounds=1)
    assert "OverflowError: too large" in answer.results[0].text
    assert chat.turns == 1


def test_a_result_that_is_no_json_tells_the_model(chat):
    def add(a: int, b: int) -> float:
        """Adds two numbers."""
        return float("nan")

    answer = chat.respond("What is 12 + 30?", tools=[add], tool_choice="required", rounds=1)
    assert "no JSON" in answer.results[0].text


def test_an_interrupt_inside_a_tool_ends_the_turn(chat):
    def add(a: int, b: int) -> int:
        """Adds two numbers."""
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        chat.respond("What is 12 + 30?", tools=[add], tool_choice="required")
    assert still_answers(chat)


def test_a_turn_is_cancelled_while_a_tool_runs(chat):
    def add(a: int, b: int) -> int:
        """Adds two numbers."""
        chat.cancel()
        return a + b

    answer = chat.respond("What is 12 + 30?", tools=[add], tool_choice="required")
    assert answer.finish == "cancelled"
    roles = [message["role"] for message in chat.messages]
    assert roles[:3] == ["user", "assistant", "tool"], "the call has a result that says so"


def test_the_conversation_may_have_the_tools():
    chat = rawloop.ChatSession(temperature=0, tools=[add])
    assert [tool.name for tool in chat.tools] == ["add"]
    assert chat.respond("What is 12 + 30?", tool_choice="add").results[0].text == "42"
    assert chat.respond("Hello!", tool_choice="none").results == []
    assert chat.respond("Hello!", tools=[]).results == []


def test_settings_of_one_turn_are_for_its_answers_only(chat):
    answer = chat.respond("What is 12 + 30?", tools=[add], tool_choice="required", max_tokens=3)
    assert answer.finish == "length"
    assert chat.settings["max_tokens"] == 2048


def test_a_fork_during_a_turn_has_the_settings_of_the_conversation(chat):
    forks = []

    def add(a: int, b: int) -> int:
        """Adds two numbers."""
        forks.append((chat.fork(), chat.settings["max_tokens"]))
        return a + b

    chat.respond("What is 12 + 30?", tools=[add], tool_choice="required", max_tokens=77)
    (fork, tokens), *_ = forks
    assert (fork.settings["max_tokens"], tokens) == (2048, 2048)
    assert fork.respond("What is the capital of France?").text


def test_choices_that_cannot_be_are_named(chat):
    with pytest.raises(rawloop.OptionError, match="the tools are add"):
        chat.respond("What is 12 + 30?", tools=[add], tool_choice="multiply")
    with pytest.raises(rawloop.OptionError, match="no tools"):
        chat.respond("What is 12 + 30?", tool_choice="required")
    with pytest.raises(rawloop.OptionError, match="two tools"):
        chat.respond("What is 12 + 30?", tools=[add, add])
    with pytest.raises(rawloop.OptionError, match="begins with a text"):
        chat.respond({"role": "user", "content": "Hello!"}, tools=[add])


def test_schemas_come_from_signatures():
    class Unit(Enum):
        CELSIUS = "C"
        FAHRENHEIT = "F"

    @dataclass
    class Place:
        city: str
        country: Optional[str] = None

    def weather(
        place: Place,
        unit: Unit,
        days: Annotated[int, "days from today"] = 1,
        detail: Literal["short", "long"] = "short",
        tags: Optional[list[str]] = None,
    ) -> str:
        """The weather
        somewhere.

        More of it.

        :param place: where
        """
        return f"{place.city} {unit.name} {days}"

    hints = {"place": Place, "unit": Unit}
    weather.__annotations__.update(hints, days=Annotated[int, "days from today"])
    weather.__annotations__.update(detail=Literal["short", "long"], tags=Optional[list[str]])
    tool = Tool.of(weather)
    assert tool.description == "The weather somewhere."
    properties = tool.parameters["properties"]
    assert properties["place"]["properties"]["city"] == {"type": "string"}
    assert properties["place"]["description"] == "where"
    assert properties["unit"] == {"enum": ["C", "F"]}
    assert properties["days"] == {"type": "integer", "description": "days from today"}
    assert properties["detail"] == {"enum": ["short", "long"]}
    assert properties["tags"]["anyOf"][0] == {"type": "array", "items": {"type": "string"}}
    assert tool.parameters["required"] == ["place", "unit"]
    given = tool.arguments({"place": {"city": "Oslo"}, "unit": "F"})
    assert given == {"place": Place("Oslo"), "unit": Unit.FAHRENHEIT}


def test_what_docstrings_say_of_arguments():
    tool = Tool.of(add)
    assert tool.description == "Adds two numbers."
    assert tool.parameters["properties"]["a"]["description"] == "The first of them."
    assert tool.parameters["properties"]["b"]["description"] == "The second."


def test_functions_without_a_schema_are_refused_or_given_one():
    def untyped(a, b):
        return a

    with pytest.raises(rawloop.SchemaError, match="no type hint"):
        Tool.of(untyped)
    with pytest.raises(rawloop.SchemaError, match="args"):
        Tool.of(lambda *args: None, name="f")
    given = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    tool = Tool.of(untyped, name="first", description="The first.", parameters=given)
    assert tool.declaration()["function"] == {"name": "first", "description": "The first.", "parameters": given}
