"""A checked run config, built from its layers."""

from __future__ import annotations

from collections.abc import Mapping

from rllib_ragen.config.load import parse_config
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.starpo.checks.combinations import check_config


def build_config(*layers: Mapping[str, object]) -> RunConfig:
    """Returns the checked config of `layers`, nested mappings of which later ones win key by key.

    Raises:
        ConfigError: an unknown key, a value out of range, or keys that do not fit together.
    """
    return check_config(parse_config(*layers))
