"""Whether the policies of a config fit together, as far as that can be seen before anything is built."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode

from ragen_envs.games.registry import make_game
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.rollout.scripted_seats import script_of

if TYPE_CHECKING:
    from rllib_ragen.starpo.config import StarPOConfig


def check_line_up(config: StarPOConfig) -> None:
    """Asks `policy_mapping_fn` for every seat of a game, and the engine whether it can serve the policies.

    Raises:
        ConfigError: a seat without a policy, nothing to train, or several policies where there can be one.
        ValueError: the engine that is asked for cannot be used.
    """
    config.engine_choice()
    if config.weight_transfer == "broadcast" and len(config.module_ids()) > 1:
        raise ConfigError(
            f"vllm.weight_transfer=broadcast with {len(config.module_ids())} policies: a channel carries the weights of"
            " one; allowed: object_store, adapters"
        )
    if not config.trained_ids():
        raise ConfigError(
            f"multi_agent(policies_to_train=…): none of the policies {', '.join(config.module_ids())} learns"
        )
    if config.policy_mapping_fn is AlgorithmConfig.DEFAULT_POLICY_MAPPING_FN and config.has_several_agents:
        raise ConfigError(
            "multi_agent(policy_mapping_fn=…): say which policy plays which agent; allowed: a function of (agent id,"
            " episode) that returns one of " + ", ".join(config.module_ids())
        )
    game = config.game()
    if game is None:
        return
    run = config.to_run_config()
    for seat in make_game(game, **run.env.task).seats:
        policy = config.policy_mapping_fn(seat, MultiAgentEpisode(id_="0"))
        if policy not in config.module_ids() and (not isinstance(policy, str) or script_of(policy) is None):
            raise ConfigError(
                f"multi_agent(policy_mapping_fn=…): seat {seat!r} of {game} is mapped to {policy!r}; allowed:"
                f" {', '.join(config.module_ids())}, and script:<player>"
            )
