"""Python functions that a model may call.

The name, the description and the schema of a function's arguments come from its signature, its type hints and its docstring:

>>> def weather(city: str, days: int = 1) -> str:
...     '''The weather in a city.
...
...     Args:
...         city: Its name.
...         days: Days from today.
...     '''
...     return f"rain in {city}"
>>> tool = Tool.of(weather)
>>> tool.name, tool.description
('weather', 'The weather in a city.')
>>> tool.parameters["properties"]["city"], tool.parameters["required"]
({'type': 'string', 'description': 'Its name.'}, ['city'])
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import typing
from dataclasses import dataclass
from typing import Any, Awaitable, Callable, Iterable, Union

from . import schema as _schema
from .errors import OptionError, SchemaError
from .events import Call

#: Asked before a call is run: true runs it, false refuses it, a text refuses it and tells the model why.
Approve = Callable[[Call], Union[bool, str, Awaitable[Union[bool, str]]]]

_REFUSED = "the user did not allow this call"


@dataclass(frozen=True)
class Tool:
    """A function with its name, description and JSON schema. :meth:`of` reads them off the function."""

    function: Callable[..., Any]
    name: str
    description: str
    parameters: dict[str, Any]
    #: Types of the arguments, where they are more than JSON.
    hints: dict[str, Any] = dataclasses.field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        parameters: dict[str, Any] | None = None,
    ) -> Tool:
        """A tool of a function; what is given wins over what the function says."""
        text = inspect.getdoc(function) or ""
        own_name: str = getattr(function, "__name__", type(function).__name__)
        name = name or own_name
        hints: dict[str, Any] = {}
        if parameters is None:
            parameters, hints = _parameters(function, name, text)
        if description is None:
            description = _summary(text)
        return cls(function, name, description, parameters, hints)

    def declaration(self) -> dict[str, Any]:
        """In OpenAI's shape."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}

    def arguments(self, given: dict[str, Any]) -> dict[str, Any]:
        """The arguments as values of their types."""
        return {
            name: _schema.build(self.hints[name], value) if name in self.hints else value
            for name, value in given.items()
        }


def tools_of(given: Iterable[Tool | Callable[..., Any]]) -> list[Tool]:
    """Tools of functions; no two of one name."""
    tools = [one if isinstance(one, Tool) else Tool.of(one) for one in given]
    names = [tool.name for tool in tools]
    for name in names:
        if names.count(name) > 1:
            raise OptionError(f"two tools are called `{name}`: give one of them another name with Tool.of")
    return tools


def _parameters(
    function: Callable[..., Any], name: str, text: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        signature = inspect.signature(function)
        called = function if inspect.isroutine(function) else type(function).__call__
        hints = typing.get_type_hints(called, include_extras=True)
    except (TypeError, ValueError, NameError) as error:
        raise SchemaError(f"tool `{name}`: its signature cannot be read ({error}): give `parameters`") from error
    described = _described(text)
    properties: dict[str, Any] = {}
    definitions: dict[str, Any] = {}
    required = []
    kept: dict[str, Any] = {}
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise SchemaError(f"tool `{name}`: `{parameter}` has no name that a call could give: give `parameters`")
        hint = hints.get(parameter.name)
        if hint is None:
            raise SchemaError(f"tool `{name}`: `{parameter.name}` has no type hint, so no schema can be made")
        schema, _ = _schema.of(hint)
        definitions.update(schema.pop("$defs", {}))
        if parameter.name in described:
            schema.setdefault("description", described[parameter.name])
        properties[parameter.name] = schema
        kept[parameter.name] = hint
        if parameter.default is parameter.empty:
            required.append(parameter.name)
    whole: dict[str, Any] = {"type": "object", "properties": properties, "required": required}
    if definitions:
        whole["$defs"] = definitions
    return whole, kept


def _summary(text: str) -> str:
    """The first paragraph of a docstring on one line."""
    return " ".join(text.split("\n\n")[0].split())


def _described(text: str) -> dict[str, str]:
    """What a docstring says about parameters: in Google's form, or as ``:param name:``."""
    found = {name: " ".join(words.split()) for name, words in re.findall(r":param\s+(\w+):\s*(.+)", text)}
    section = re.search(r"^(?:Args|Arguments|Parameters):[ \t]*\n((?:[ \t]+.*(?:\n|$)|\n)+)", text, re.MULTILINE)
    if section is None:
        return found
    name, indent = None, None
    for line in section.group(1).splitlines():
        entry = re.match(r"([ \t]+)(\w+)(?:[ \t]*\([^)]*\))?:[ \t]*(.*)", line)
        if entry and (indent is None or len(entry.group(1)) <= indent):
            indent, name = len(entry.group(1)), entry.group(2)
            found[name] = entry.group(3).strip()
        elif name and line.strip():
            found[name] = f"{found[name]} {line.strip()}".strip()
    return found


def as_json(result: Any) -> str:
    """A result as JSON; dataclasses and pydantic's models become objects, anything else that JSON does not know its text."""
    return json.dumps(result, default=_plain, allow_nan=False, ensure_ascii=False)


def _plain(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=str)
    return str(value)


def refusal(approved: bool | str) -> str | None:
    """Why a call may not run, or None where it may."""
    if isinstance(approved, str):
        return approved or _REFUSED
    return None if approved else _REFUSED


def failure(error: Exception) -> str:
    """What the model is told of a call that failed."""
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
