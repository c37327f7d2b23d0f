"""Answers as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Optional, TypedDict

import pytest

import rawloop
from rawloop import schema

PROMPT = "Extract name and age as JSON: Ida is 42 years old."


@dataclass
class Person:
    name: str
    age: Optional[int]


class Row(TypedDict, total=False):
    name: str
    tags: list[str]


def test_an_answer_is_of_the_type(chat):
    answer = chat.respond(PROMPT, schema=Person)
    assert isinstance(answer.value, Person)
    assert isinstance(answer.value.name, str)
    plain = chat.fork()
    plain.clear()
    assert plain.respond(PROMPT, schema=schema.of(Person)[0]).value == vars(answer.value)


def test_pydantic_models_and_adapters():
    pydantic = pytest.importorskip("pydantic")

    class City(pydantic.BaseModel):
        name: Literal["Rome", "Paris"]

    class Trip(pydantic.BaseModel):
        city: City
        days: int = pydantic.Field(ge=1, le=9)

    chat = rawloop.ChatSession(temperature=0)
    trip = chat.respond("Extract city and days as JSON: three days in Rome.", schema=Trip).value
    assert isinstance(trip, Trip) and isinstance(trip.city, City)
    either = chat.respond("Which city?", schema=pydantic.TypeAdapter(Optional[City]))
    assert either.value is None or isinstance(either.value, City)
    inside = schema.of(Optional[Trip])[0]
    assert "City" in inside["$defs"], "definitions are where references look for them"


def test_streams_give_the_value_at_the_end(chat):
    stream = chat.stream(PROMPT, schema=Person)
    text = "".join(stream.texts())
    assert text == stream.answer.text
    assert isinstance(stream.answer.value, Person)


def test_a_conversation_may_have_a_schema():
    chat = rawloop.ChatSession(temperature=0, schema=Person)
    assert isinstance(chat.respond(PROMPT).value, Person)
    assert isinstance(chat.fork().respond(PROMPT).value, Person)


def test_tools_and_a_schema_go_together(chat):
    def add(a: int, b: int) -> int:
        """Adds two numbers."""
        return a + b

    answer = chat.respond("What is 12 + 30?", tools=[add], tool_choice="required", schema={"type": "integer"})
    assert answer.results[0].text == "42"
    assert isinstance(answer.value, int)


def test_an_answer_that_was_cut_is_an_error(chat):
    with pytest.raises(rawloop.AnswerError, match="max_tokens"):
        chat.respond(PROMPT, schema=Person, max_tokens=3)
    assert chat.turns == 1


def test_schemas_that_no_answer_can_follow_are_named(chat):
    with pytest.raises(rawloop.SchemaError, match="typ"):
        chat.respond(PROMPT, schema={"type": "strin"})
    with pytest.raises(rawloop.SchemaError, match="regex"):
        chat.respond(PROMPT, regex="(")
    with pytest.raises(rawloop.SchemaError, match="plain type"):
        chat.respond(PROMPT, schema=object())
    assert chat.messages == []


@pytest.mark.parametrize(
    "wanted, value, built",
    [
        (int, 3, 3),
        (float, 3, 3.0),
        (Optional[int], None, None),
        (list[Person], [{"name": "a", "age": 1}], [Person("a", 1)]),
        (dict[str, Person], {"x": {"name": "a", "age": 1}}, {"x": Person("a", 1)}),
        (tuple[int, str], [1, "a"], (1, "a")),
        (tuple[int, ...], [1, 2], (1, 2)),
        (set[str], ["a", "a"], {"a"}),
        (Row, {"name": "a"}, {"name": "a"}),
        (Literal["a", "b"], "b", "b"),
        (int | str, "x", "x"),
        (Person | str, "x", "x"),
        (bool | int, 1, 1),
    ],
)
def test_values_of_types(wanted, value, built):
    _, build = schema.of(wanted)
    assert build(value) == built
    assert type(build(value)) is type(built)


@pytest.mark.parametrize("form", [{"choice": ["yes", "no"]}, {"regex": "yes|no"}, {"grammar": 'start: "yes" | "no"'}])
def test_other_forms(chat, form):
    assert chat.respond("Is Paris in France?", **form).text in ("yes", "no")
    assert chat.respond("Is Paris in France?", gbnf='root ::= "yes" | "no"').text in ("yes", "no")
