"""Whether the rewards of a config can be had, and paid."""

from __future__ import annotations

from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.credit.rewards.registry import make_rewards


def check_rewards(config: RunConfig) -> None:
    """Makes every reward once, without calling it.

    Raises:
        ConfigError: an unknown name or setting; one sentence with the key.
    """
    try:
        make_rewards(config)
    except (ValueError, TypeError) as error:
        raise ConfigError(str(error)) from None
