"""Matchmaking: the episodes of a batch and of an evaluation, and the trajectories to train on.

`Matchmaker` is that of an environment with one agent; matchmaking/games.py has the one for several.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ragen_envs.instances import evaluated_numbers
from ragen_envs.tree import Tree
from rllib_ragen.config.policy_plan import PolicyPlan
from rllib_ragen.rollout.specs import EpisodeSpec, evaluation_specs, training_specs
from rllib_ragen.rollout.statistics import evaluation_statistics, success_by_instance
from rllib_ragen.types import Trajectory

Play = Callable[[Sequence[EpisodeSpec]], list[Trajectory]]
"""A function that plays the specs and returns all their trajectories."""


class Matchmaker:
    """The matchmaker of one agent and one policy."""

    def __init__(self, plan: PolicyPlan) -> None:
        self.plan = plan
        self._numbers: dict[tuple[str, int], list[int]] = {}
        """Found once: rare instances take thousands of draws."""
        self.success_by_instance: dict[str, float] = {}
        """Success by instance in the last evaluation (`rollout.statistics.success_by_instance`)."""

    @property
    def main(self) -> str:
        """The policy that is exported and probed."""
        return self.plan.trained[0]

    def training_specs(self, first_group: int, num_groups: int) -> Sequence[EpisodeSpec]:
        """Returns the episodes of the next groups."""
        return training_specs(self.plan.seed, first_group, num_groups, self.plan.group_size)

    def own(self, trajectories: Sequence[Trajectory]) -> list[Trajectory]:
        """Returns the trajectories of trained policies."""
        return [trajectory for trajectory in trajectories if trajectory.module_id in self.plan.trained]

    def note(self, trajectories: Sequence[Trajectory]) -> None:
        """Takes note of a batch, before the next one is drawn."""

    def statistics(self, own: Sequence[Trajectory]) -> dict[str, float]:
        """Returns further metrics of a batch, beside those of every task."""
        return {}

    def evaluate(self, play: Play, split: str, num_instances: int, env: str | None = None) -> dict[str, float]:
        """Returns evaluation_statistics of the first `num_instances` different instances of a split, and num_instances.

        num_instances is how many there were: fewer than were asked for where a split has no more. `env` chooses one of
        several environments.

        Raises:
            ValueError: `env` is given where there is only one.
        """
        refuse_choice(env)
        specs = evaluation_specs(split, self.evaluated(split, num_instances))
        return self._evaluated(play(specs), len(specs))

    def _evaluated(self, trajectories: Sequence[Trajectory], num_played: int) -> dict[str, float]:
        self.success_by_instance = success_by_instance(trajectories)
        return evaluation_statistics(trajectories) | {"num_instances": float(num_played)}

    def evaluated(self, split: str, num_instances: int) -> list[int]:
        """Returns the numbers of the instances that an evaluation plays, all different."""
        known = (split, num_instances)
        if known not in self._numbers:
            self._numbers[known] = evaluated_numbers(self.plan.env, self.plan.task, split, num_instances)
        return self._numbers[known]

    def to_copy(self, iteration: int, own: Sequence[Trajectory]) -> tuple[str, str] | None:
        """Returns (policy, policy to copy its weights to) after an iteration; None: no copy."""
        return None

    def state(self) -> Tree:
        """Returns the state for a checkpoint."""
        return {}

    def restore(self, state: Tree) -> None:
        """Takes what `state` gave."""


def refuse_choice(env: str | None) -> None:
    """Raises ValueError if one of several environments is chosen."""
    if env is not None:
        raise ValueError(f"unknown environment {env!r}: the run has only one, which needs no name")
