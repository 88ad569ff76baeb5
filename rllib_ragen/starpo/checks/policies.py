"""Checks of a config's policies, before anything is built."""

from __future__ import annotations

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode

from ragen_envs.games.registry import make_game
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.policy_plan import PolicyPlan
from rllib_ragen.rollout.scripted_seats import script_of


def check_policies(plan: PolicyPlan) -> None:
    """Checks the policies that `policy_mapping_fn` gives the seats of a game.

    Raises:
        ConfigError: a seat without a policy, or no policy to train.
    """
    known = ", ".join(plan.module_ids)
    if not plan.trained:
        raise ConfigError(f"multi_agent(policies_to_train=…): none of the policies {known} learns")
    if plan.mapping_fn is AlgorithmConfig.DEFAULT_POLICY_MAPPING_FN and plan.several_agents:
        raise ConfigError(
            "multi_agent(policy_mapping_fn=…): say which policy plays which agent; allowed: a function of (agent id,"
            f" episode) that returns one of {known}"
        )
    if plan.game is None:
        return
    for seat in make_game(plan.game, **plan.task).seats:
        policy = plan.mapping_fn(seat, MultiAgentEpisode(id_="0"))
        if policy not in plan.module_ids and (not isinstance(policy, str) or script_of(policy) is None):
            raise ConfigError(
                f"multi_agent(policy_mapping_fn=…): seat {seat!r} of {plan.game} is mapped to {policy!r}; allowed:"
                f" {known}, and script:<player>"
            )
