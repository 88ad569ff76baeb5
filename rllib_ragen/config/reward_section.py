"""What a config says of a reward function: which, how much it counts, and its own settings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pydantic import ConfigDict, Field, model_validator

from ragen_envs.tree import Tree
from rllib_ragen.config.paths import enter_reward
from rllib_ragen.config.section import MOST, Section

ENV_REWARD = "env"
"""Name under which the environment's own reward is weighed."""
JUDGE = "judge"
"""Name of the reward that a model gives (credit/rewards/judge.py)."""
_MAY_CHANGE = ("budget_calls", "cache")
"""Settings of a judge that make no other run of a run: what it may spend, and where it remembers."""


class RewardSection(Section):
    """One reward. What is no key here is a setting of the function's own, which it must know."""

    model_config = ConfigDict(extra="allow", validate_assignment=True, allow_inf_nan=False)

    name: str = Field(description="env, length_penalty, format_reward, judge, or my_pkg.rewards:fn")
    weight: float = Field(1.0, ge=-1e6, le=1e6, description="factor in what is trained on; 0: only logged")
    label: str | None = Field(
        None, pattern=r"^\w[\w.-]*$", description="its name in logs; null: the last part of its name"
    )
    timeout_s: float = Field(60.0, gt=0, le=MOST, description="longest wait for its next answer")

    @model_validator(mode="before")
    @classmethod
    def _from_where_it_is_said(cls, given: object) -> object:
        return enter_reward(given) if isinstance(given, Mapping) else given

    @property
    def settings(self) -> Tree:
        """What is said to the function itself."""
        return dict(self.model_extra or {})

    @property
    def shown_as(self) -> str:
        """The label, told or not."""
        return self.label or re.sub(r"\W", "_", self.name.rpartition(":")[2].rpartition(".")[2])


def as_list(given: object) -> object:
    """Returns `rewards` as the list that it stands for: a name alone, one mapping, or a list of both."""
    told = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    return [{"name": one} if isinstance(one, str) else one for one in told] if given is not None else []


def reward_names(given: object) -> list[str]:
    """Returns the names in `rewards`, told in any of the ways that `as_list` and the schema take."""
    told = as_list(given)
    entries = told if isinstance(told, list) else []
    names = [one.name if isinstance(one, RewardSection) else one["name"] for one in entries]
    return [name for name in names if isinstance(name, str)]


def comparable(rewards: Sequence[Tree]) -> list[Tree]:
    """Returns rewards (as JSON) without what may differ between a run and the same run gone on with."""
    return [
        {key: value for key, value in one.items() if one["name"] != JUDGE or key not in _MAY_CHANGE} for one in rewards
    ]
