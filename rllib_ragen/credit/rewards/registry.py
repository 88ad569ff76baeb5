"""Rewards by name: the shipped ones, and the door for a user's own."""

from __future__ import annotations

from ragen_envs.open_names import OpenNames
from rllib_ragen.config.reward_section import ENV_REWARD, JUDGE, RewardSection
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.credit.rewards.function import Reward, RewardFunction, bind, check_reward

_HERE = "rllib_ragen.credit.rewards"


def register_reward(name: str, reward: Reward) -> None:
    """Makes a user's reward known as `name`, for `rewards`.

    Args:
        name: letters, digits and `_ . + -`; a name that is registered already gets the new reward.
        reward: a function, sync or async, whose first parameter is called `turn`, `trajectory` or `trajectories` and is
            given that; its other parameters are settings, which the config tells by name. Or a class that is made with
            the settings and whose instances are called so.

    Raises:
        ValueError: the name of a shipped reward, or no such function.
    """
    REWARDS.register(name, reward)


def make_rewards(run: RunConfig) -> tuple[float, list[RewardFunction]]:
    """Returns (weight of the environment's own reward, the other rewards) of a run.

    Raises:
        ValueError: an unknown name or setting, or entries that do not fit together; one sentence that names the key.
    """
    env_weight, made = 1.0, []
    names = [section.shown_as for section in run.rewards]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"rewards: two are called {name!r} in logs; give them different labels (label: …)")
    if run.rewards and not any(section.weight for section in run.rewards) and ENV_REWARD in names:
        raise ValueError("rewards: every weight is 0, so nothing would be learnt")
    for section in run.rewards:
        try:
            if section.name == ENV_REWARD:
                bind(REWARDS.resolve(ENV_REWARD), section, run)
                if section != RewardSection(name=ENV_REWARD, weight=section.weight):
                    raise ValueError("env: label and timeout_s mean nothing for the environment's own; allowed: weight")
                env_weight = section.weight
            else:
                made.append(bind(REWARDS.resolve(section.name), section, run))
        except ValueError as error:
            raise ValueError(f"rewards: {error}") from error
    return env_weight, made


REWARDS: OpenNames[Reward] = OpenNames(
    "reward",
    "rllib_ragen.rewards",
    {
        ENV_REWARD: f"{_HERE}.shipped:env_reward",
        "format_reward": f"{_HERE}.shipped:format_reward",
        "length_penalty": f"{_HERE}.shipped:LengthPenalty",
        JUDGE: f"{_HERE}.judge:Judge",
    },
    check_reward,
)
"""All rewards by name."""
