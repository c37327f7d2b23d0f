"""From Python's types to JSON schemas, and from JSON back to values of these types.

What is understood: ``str``, ``int``, ``float``, ``bool``, ``None``, ``Any``, ``list``, ``tuple[T, ...]``, ``set``, ``dict[str, T]``,
``Optional`` and other unions, ``Literal``, ``Enum``, ``Annotated[T, "description"]``, ``TypedDict``, dataclasses, and classes and
``TypeAdapter`` of pydantic where it is installed. A ``dict`` is taken for a schema as it is.

>>> from dataclasses import dataclass
>>> @dataclass
... class Person:
...     name: str
...     age: int | None = None
>>> schema, build = of(Person)
>>> schema["required"], schema["properties"]["age"]
(['name'], {'anyOf': [{'type': 'integer'}, {'type': 'null'}]})
>>> build({"name": "Ida", "age": 42})
Person(name='Ida', age=42)
"""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import types
import typing
from typing import Any, Callable

from .errors import SchemaError

_PLAIN: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    None: {"type": "null"},
    type(None): {"type": "null"},
    Any: {},
}
_LISTS = (list, collections.abc.Sequence, collections.abc.Iterable)
_SETS = (set, frozenset)
_DICTS = (dict, collections.abc.Mapping)


def of(wanted: Any) -> tuple[dict[str, Any], Callable[[Any], Any]]:
    """The schema of a type, and what makes a value of that type from parsed JSON."""
    if isinstance(wanted, dict):
        return wanted, lambda value: value
    definitions: dict[str, Any] = {}
    schema = _schema(wanted, definitions)
    if definitions:
        schema = {**schema, "$defs": definitions}
    return schema, lambda value: build(wanted, value)


def _of_pydantic(wanted: Any) -> dict[str, Any] | None:
    """pydantic's own schema: of a model class, or of a ``TypeAdapter``."""
    for name in ("model_json_schema", "json_schema"):
        make = getattr(wanted, name, None)
        if callable(make) and (hasattr(wanted, "model_validate") or hasattr(wanted, "validate_python")):
            schema: dict[str, Any] = make()
            _close(schema)
            return schema
    return None


def _close(schema: Any) -> None:
    """Says of objects with known properties that they have no others: pydantic would drop those, so they need not be made."""
    if isinstance(schema, dict):
        if "properties" in schema:
            schema.setdefault("additionalProperties", False)
        for name, inner in schema.items():
            # These hold schemas by names that are the caller's.
            _close(list(inner.values()) if name in ("properties", "$defs") and isinstance(inner, dict) else inner)
    elif isinstance(schema, list):
        for inner in schema:
            _close(inner)


def _schema(wanted: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    if wanted in _LISTS or wanted in (tuple, *_SETS):
        return {"type": "array"}
    if wanted in _DICTS:
        return {"type": "object"}
    try:
        return dict(_PLAIN[wanted])
    except (KeyError, TypeError):
        pass
    theirs = _of_pydantic(wanted)
    if theirs is not None:
        definitions.update(theirs.pop("$defs", {}))
        return theirs
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin is typing.Annotated:
        schema = _schema(arguments[0], definitions)
        texts = [extra for extra in arguments[1:] if isinstance(extra, str)]
        return {**schema, "description": " ".join(texts)} if texts else schema
    if origin in (typing.Required, typing.NotRequired) if hasattr(typing, "Required") else False:
        return _schema(arguments[0], definitions)
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [_schema(one, definitions) for one in arguments]}
    if origin in _LISTS:
        return {"type": "array", "items": _schema(arguments[0], definitions)}
    if origin in _SETS:
        return {"type": "array", "items": _schema(arguments[0], definitions)}
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return {"type": "array", "items": _schema(arguments[0], definitions)}
        items = [_schema(one, definitions) for one in arguments]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    if origin in _DICTS:
        return {"type": "object", "additionalProperties": _schema(arguments[1], definitions)}
    if isinstance(wanted, type) and issubclass(wanted, enum.Enum):
        return {"enum": [member.value for member in wanted]}
    if dataclasses.is_dataclass(wanted) and isinstance(wanted, type):
        fields = {one.name: one for one in dataclasses.fields(wanted) if one.init}
        hints = typing.get_type_hints(wanted, include_extras=True)
        required = [name for name, one in fields.items() if _has_no_default(one)]
        return _object({name: hints[name] for name in fields}, required, definitions)
    if typing.is_typeddict(wanted):
        hints = typing.get_type_hints(wanted, include_extras=True)
        return _object(hints, [name for name in hints if name in wanted.__required_keys__], definitions)
    raise SchemaError(f"no JSON schema can be made of {wanted!r}: use a plain type, a dataclass or a schema")


def _has_no_default(one: dataclasses.Field[Any]) -> bool:
    return one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING


def _object(hints: dict[str, Any], required: list[str], definitions: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: _schema(hint, definitions) for name, hint in hints.items()},
        "required": required,
        "additionalProperties": False,
    }


def build(wanted: Any, value: Any) -> Any:
    """A value of a type, from parsed JSON that fits its schema."""
    if isinstance(wanted, dict):
        return value
    for name in ("model_validate", "validate_python"):
        validate = getattr(wanted, name, None)
        if callable(validate):
            return validate(value)
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin is typing.Annotated or (hasattr(typing, "Required") and origin in (typing.Required, typing.NotRequired)):
        return build(arguments[0], value)
    if origin in (typing.Union, types.UnionType):
        return _one_of(arguments, value)
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, list):
        if wanted is tuple or origin is tuple:
            each = arguments[:1] * len(value) if arguments[1:] == (Ellipsis,) else arguments
            return tuple(build(hint, one) for hint, one in zip(each, value)) if each else tuple(value)
        if wanted in _SETS or origin in _SETS:
            kind = typing.cast("Any", origin or wanted)
            return kind(build(arguments[0], one) if arguments else one for one in value)
        return [build(arguments[0], one) if arguments else one for one in value]
    if isinstance(wanted, type) and issubclass(wanted, enum.Enum):
        return wanted(value)
    if isinstance(value, dict):
        if dataclasses.is_dataclass(wanted) and isinstance(wanted, type):
            hints = typing.get_type_hints(wanted, include_extras=True)
            return wanted(**{name: build(hints[name], one) for name, one in value.items() if name in hints})
        if typing.is_typeddict(wanted):
            hints = typing.get_type_hints(wanted, include_extras=True)
            return {name: build(hints[name], one) for name, one in value.items() if name in hints}
        if origin in _DICTS:
            return {name: build(arguments[1], one) for name, one in value.items()}
    return value


def _one_of(options: tuple[Any, ...], value: Any) -> Any:
    """The first type of a union that a value can be of."""
    for option in options:
        if option in (None, type(None)):
            if value is None:
                return None
            continue
        plain = _PLAIN.get(option) if isinstance(option, type) else None
        if plain is not None and not _is_plain(plain["type"], value):
            continue
        try:
            return build(option, value)
        except (TypeError, ValueError, KeyError):
            continue
    return value


def _is_plain(kind: str, value: Any) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    kinds: dict[str, tuple[type, ...]] = {"string": (str,), "integer": (int,), "number": (int, float)}
    return isinstance(value, kinds.get(kind, ()))
