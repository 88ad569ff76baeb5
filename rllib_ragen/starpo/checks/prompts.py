"""Whether a user's own prompts can be told in the run's environment."""

from __future__ import annotations

from ragen_envs import text
from ragen_envs.games import limits
from ragen_envs.prompts import check_prompt
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.paths import PROMPT_KEYS
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.config.task_names import game_name


def check_prompts(config: RunConfig) -> None:
    """Checks the placeholders of `env.system_prompt` and `env.prompt_template`; games and tasks have their own.

    Raises:
        ConfigError: an unknown one, or a template that leaves out what the environment says; one sentence with the key.
    """
    parts = text if game_name(config.env.name) is None else limits
    for key, allowed, needs in (
        ("system_prompt", parts.SYSTEM_PARTS, ()),
        ("prompt_template", parts.MESSAGE_PARTS, text.SHOWS),
    ):
        try:
            check_prompt(getattr(config.env, key), allowed, needs)
        except ValueError as error:
            raise ConfigError(f"env.{key}: {error}") from None


def refuse_prompts(config: RunConfig) -> None:
    """Refuses prompts for an environment that is somebody else's: it tells its own.

    Raises:
        ConfigError: there is one.
    """
    for key in PROMPT_KEYS:
        if getattr(config.env, key):
            raise ConfigError(
                f"env.{key} with env.name={config.env.name}, which tells its prompts itself; allowed: '' (none)"
            )
