"""pydantic's errors as one sentence: the key, the value, the allowed values."""

from __future__ import annotations

from collections.abc import Iterable
from types import NoneType, UnionType
from typing import Annotated, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from rllib_ragen.config.errors import nearest
from rllib_ragen.config.schema import RunConfig

_KINDS: dict[object, str] = {int: "an integer", float: "a number", str: "a text", bool: "true or false"}
_BOUNDS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}


def sentence(error: ValidationError, schema: type[BaseModel] = RunConfig) -> str:
    """Returns a sentence about the first fault of `error`, which `schema` raised, and the number of further ones."""
    faults = error.errors()
    text = _fault(tuple(str(part) for part in faults[0]["loc"]), faults[0]["type"], faults[0]["input"], schema)
    return text + (f" (and {len(faults) - 1} more)" if len(faults) > 1 else "")


def _fault(path: tuple[str, ...], kind: str, value: object, section: type[BaseModel]) -> str:
    for depth, part in enumerate(path, start=1):
        field = section.model_fields.get(part)
        if kind == "extra_forbidden" and depth == len(path):
            return f"{'.'.join(path)}: unknown key; {nearest(part, list(section.model_fields))}"
        if field is None:
            break
        if not is_section(field.annotation):
            return f"{'.'.join(path[:depth])}: must be {allowed(field)}, got {value!r}"
        assert isinstance(field.annotation, type)
        section = field.annotation
    names = ", ".join(section.model_fields)
    return f"{'.'.join(path) or 'config'}: must be a section with some of the keys {names}, got {value!r}"


def is_section(annotation: object) -> bool:
    """Returns whether a field is a section."""
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def allowed(field: FieldInfo) -> str:
    """Returns the allowed values of a field in words: `an integer ≥ 1`, `one of hf, vllm`."""
    bounds = _bounds(field.metadata)
    if any(getattr(m, "pattern", None) for m in field.metadata):
        bounds.append("of letters, digits and . _ -")
    kind, *null = _kind(field.annotation).partition(", or null")
    return " ".join([kind, " and ".join(bounds)]).strip() + null[0]


def _bounds(metadata: Iterable[object]) -> list[str]:
    limits = {name: next((getattr(m, name) for m in metadata if hasattr(m, name)), None) for name in _BOUNDS}
    return [
        f"{_BOUNDS[name]} {limit if isinstance(limit, int) else f'{limit:g}'}"
        for name, limit in limits.items()
        if limit is not None
    ]


def _kind(annotation: object) -> str:
    if get_origin(annotation) is Annotated:
        kind, field = get_args(annotation)
        return f"{_kind(kind)} {' and '.join(_bounds(field.metadata))}"
    if get_origin(annotation) is Literal:
        return f"one of {', '.join(str(choice) for choice in get_args(annotation))}"
    if isinstance(annotation, UnionType) or get_origin(annotation) is Union:
        kinds = [_kind(choice) for choice in get_args(annotation) if choice is not NoneType]
        return " or ".join(kinds) + (", or null" if NoneType in get_args(annotation) else "")
    if get_origin(annotation) is tuple:
        return f"a list of {len(get_args(annotation))}, each {_kind(get_args(annotation)[0])}"
    if get_origin(annotation) is list:
        return f"a list, each {_kind(get_args(annotation)[0])}"
    if get_origin(annotation) is dict:
        return "a mapping of names to values"
    return _KINDS.get(annotation, "a text")
