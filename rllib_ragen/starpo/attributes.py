"""Keys of the run config as flat attributes of a StarPOConfig, each with the setter where RLlib has its like."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from rllib_ragen.config.schema import RunConfig
from rllib_ragen.config.section import Section
from rllib_ragen.config.watching import AlarmsSection

_FLAT = ("multi_agent", "model", "rollout", "vllm", "credit", "learner", "offline", "diagnostics", "alarms", "fault")
"""Sections whose keys are attributes; `env` is RLlib's env_config, the rest is of whoever drives the run."""
SECTIONS: Mapping[str, type[Section]] = MappingProxyType(
    {
        name: field.annotation
        for name, field in RunConfig.model_fields.items()
        if name in _FLAT and isinstance(field.annotation, type)
    }
)
_RENAMED = {
    ("model", "path"): "model_path",
    ("multi_agent", "mode"): "play_mode",
    ("rollout", "timeout_s"): "sample_timeout_s",
    ("diagnostics", "interval"): "diagnostics_interval",
    ("diagnostics", "num_prompts"): "diagnostics_num_prompts",
    # RLlib's own attribute.
    ("offline", "input"): "input_",
    **{("alarms", key): f"alarm_{key}" for key in AlarmsSection.model_fields},
}
"""Attributes of keys whose name is unclear without its section, or has another meaning in RLlib."""


def flat_attributes(
    sections: Mapping[str, type[Section]], renamed: Mapping[tuple[str, str], str]
) -> dict[str, tuple[str, str]]:
    """Returns the attribute of every key of the sections.

    Raises:
        ValueError: two keys have the same attribute.
    """
    found: dict[str, tuple[str, str]] = {}
    for section, cls in sections.items():
        for key in cls.model_fields:
            attribute = renamed.get((section, key), key)
            if attribute in found:
                raise ValueError(f"{'.'.join(found[attribute])} and {section}.{key} would both be {attribute!r}")
            found[attribute] = (section, key)
    return found


ATTRIBUTES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        **flat_attributes(SECTIONS, _RENAMED),
        "reply_prefix": ("env", "reply_prefix"),
        "eval_temperature": ("eval", "temperature"),
        "rewards": ("", "rewards"),
    }
)
"""Attribute → (section, key) of the RunConfig that means the same; the section is empty for a key of the run itself."""
_OTHER_SETTER = {
    # How the model is made to talk, whatever the environment.
    "reply_prefix": "llm",
    "eval_temperature": "rollout",
    "rewards": "training",
    # RLlib has them itself: env_runners(…) and learners(…).
    **dict.fromkeys(("num_env_runners", "num_gpus_per_env_runner", "sample_timeout_s"), ""),
    **dict.fromkeys(("num_learners", "num_gpus_per_learner"), ""),
    # RLlib has these, or their like, in training(…).
    **dict.fromkeys(("num_groups", "group_size", "estimator", "normalize", "gamma", "lam"), "training"),
}
_SETTER_OF_SECTION = {"model": "llm", "learner": "training", "fault": "fault_tolerance", "offline": "offline_data"}


def field_of(attribute: str) -> FieldInfo:
    """Returns the schema's field of an attribute."""
    section, key = ATTRIBUTES[attribute]
    holder = RunConfig.model_fields[section].annotation if section else RunConfig
    assert isinstance(holder, type) and issubclass(holder, BaseModel)
    return holder.model_fields[key]


def value_in(run: RunConfig, attribute: str) -> Any:
    """Returns what a run's config says of an attribute."""
    section, key = ATTRIBUTES[attribute]
    return getattr(getattr(run, section) if section else run, key)


def setter_of(attribute: str) -> str:
    """Returns the name of an attribute's fluent setter; empty for RLlib's own."""
    section, _ = ATTRIBUTES[attribute]
    return _OTHER_SETTER.get(attribute, _SETTER_OF_SECTION.get(section, section))
