"""Keys of the run config as flat attributes of a StarPOConfig, each with the setter where a user of RLlib looks."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from rllib_ragen.config.schema import RunConfig
from rllib_ragen.config.section import Section

_FLAT = ("multi_agent", "model", "rollout", "vllm", "credit", "learner", "diagnostics", "fault")
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
}
"""Keys that say too little, or something else to RLlib, without their section."""


def flat_attributes(
    sections: Mapping[str, type[Section]], renamed: Mapping[tuple[str, str], str]
) -> dict[str, tuple[str, str]]:
    """Gives every key of the sections an attribute.

    Raises:
        ValueError: two keys would be one attribute.
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
    {**flat_attributes(SECTIONS, _RENAMED), "reply_prefix": ("env", "reply_prefix")}
)
"""Attribute → (section, key) of the RunConfig that means the same."""
_OTHER_SETTER = {
    # How the model is made to talk, whatever the environment.
    "reply_prefix": "llm",
    # RLlib has them itself: env_runners(…) and learners(…).
    **dict.fromkeys(("num_env_runners", "num_gpus_per_env_runner", "sample_timeout_s"), ""),
    **dict.fromkeys(("num_learners", "num_gpus_per_learner"), ""),
    # RLlib has these, or their like, in training(…).
    **dict.fromkeys(("num_groups", "group_size", "estimator", "normalize", "gamma", "lam"), "training"),
}
_SETTER_OF_SECTION = {"model": "llm", "learner": "training", "fault": "fault_tolerance"}


def setter_of(attribute: str) -> str:
    """Names the fluent setter of an attribute; empty: one of RLlib's own."""
    section, _ = ATTRIBUTES[attribute]
    return _OTHER_SETTER.get(attribute, _SETTER_OF_SECTION.get(section, section))
