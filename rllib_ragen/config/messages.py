"""pydantic's errors as one sentence: the key, the value, the allowed values."""

from __future__ import annotations

from collections.abc import Iterable
from types import NoneType, UnionType
from typing import Annotated, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from rllib_ragen.config.errors import ConfigError, nearest
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.config.section import section_of

_KINDS: dict[object, str] = {int: "an integer", float: "a number", str: "a text", bool: "true or false"}
_BOUNDS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}


def sentence(error: ValidationError, schema: type[BaseModel] = RunConfig) -> str:
    """Returns a sentence about the first fault of `error`, which `schema` raised, and the number of further ones."""
    faults = error.errors()
    path, told = faults[0]["loc"], faults[0].get("ctx", {}).get("error")
    if isinstance(told, ConfigError):
        text = f"{_key(path)}: {told}"
    else:
        text = _fault(path, faults[0]["type"], faults[0]["input"], schema)
    return text + (f" (and {len(faults) - 1} more)" if len(faults) > 1 else "")


def _key(path: tuple[str | int, ...]) -> str:
    """Returns a key as it is written: `envs[1].task`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def _fault(path: tuple[str | int, ...], kind: str, value: object, section: type[BaseModel]) -> str:
    said = ""
    field: FieldInfo | None = None
    for depth, part in enumerate(path, start=1):
        said = _key(path[:depth])
        if isinstance(part, int):
            continue
        field = section.model_fields.get(part)
        if kind == "extra_forbidden" and depth == len(path):
            return f"{said}: unknown key; {nearest(part, list(section.model_fields))}"
        if field is None:
            break
        inner = section_of(field.annotation)
        if kind == "missing" and depth == len(path):
            return f"{said}: is missing; must be {allowed(field)}"
        if inner is None or (kind in ("too_short", "too_long") and depth == len(path)):
            return f"{said}: must be {allowed(field)}, got {value!r}"
        section = inner
    if field is not None and get_origin(field.annotation) is list and not said.endswith("]"):
        return f"{said}: must be {allowed(field)}, got {value!r}"
    names = ", ".join(section.model_fields)
    null = ", or null" if field is not None and NoneType in get_args(field.annotation) else ""
    return f"{said or 'config'}: must be a section with some of the keys {names}{null}, got {value!r}"


def allowed(field: FieldInfo) -> str:
    """Returns the allowed values of a field in words: `an integer ≥ 1`, `one of hf, vllm`."""
    bounds = _bounds(field.metadata)
    if any(getattr(m, "pattern", None) for m in field.metadata):
        bounds.append("of letters, digits and . _ -")
    kind, *null = _kind(field.annotation).partition(", or null")
    return " ".join([kind, " and ".join(bounds)]).strip() + _lengths(field.metadata) + null[0]


def _lengths(metadata: Iterable[object]) -> str:
    signs = {"min_length": "≥", "max_length": "≤"}
    said = [f"{sign} {getattr(m, name)}" for name, sign in signs.items() for m in metadata if hasattr(m, name)]
    return f"; {' and '.join(said)} of them" if said else ""


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
    section = section_of(annotation)
    if section is None:
        return _KINDS.get(annotation, "a text")
    if section.model_config.get("extra") == "allow":
        return f"a name, or a mapping with {', '.join(section.model_fields)} and settings of its own"
    return "a section"
