"""Base of every section of a config: strict, whatever the section says."""

from __future__ import annotations

from types import NoneType
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator

MOST = 1_000_000_000
"""Upper bound of what is only counted, and of seconds (30 years): no library below takes them for infinite or dies."""


class Section(BaseModel):
    """Base of every section: unknown keys refused, assignments validated, numbers finite, no type taken for another."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _no_other_type(cls, value: object, info: ValidationInfo) -> Any:
        """Refuses what pydantic would take: true for 1, `off` for false, "1_000" for a number."""
        _refuse_other_type(cls.model_fields[info.field_name or ""].annotation, value)
        return value


def _refuse_other_type(annotation: Any, value: Any) -> None:
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (list, tuple) and isinstance(value, list | tuple):
        for element in value:
            _refuse_other_type(get_args(annotation)[0], element)
        return
    kinds = {kind for kind in get_args(annotation) or (annotation,) if kind is not NoneType}
    if isinstance(value, bool) and bool not in kinds:
        raise ValueError("true or false, where something else is wanted")
    if kinds == {bool} and not isinstance(value, bool | NoneType):
        raise ValueError("something else, where true or false is wanted")
    if kinds <= {int, float} and isinstance(value, str):
        raise ValueError("a text, where a number is wanted")


def section_of(annotation: object) -> type[Section] | None:
    """Says which section a field holds: one, one or null, or a list of them; None: it holds something else."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    found = [section_of(part) for part in get_args(annotation)]
    return next((one for one in found if one is not None), None)
