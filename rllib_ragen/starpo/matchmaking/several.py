"""Who plays what in a run of several environments, or of one with a curriculum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ragen_envs.instances import evaluated_numbers
from ragen_envs.tree import Tree
from rllib_ragen.config.environments import Exam, exams
from rllib_ragen.config.policy_plan import PolicyPlan
from rllib_ragen.config.task_names import task_name
from rllib_ragen.credit.groups import group_members
from rllib_ragen.rollout.shares import Turn, shared_out
from rllib_ragen.rollout.specs import EpisodeSpec, evaluation_specs, mixed_specs
from rllib_ragen.rollout.statistics import evaluation_statistics, success_by_instance
from rllib_ragen.starpo.matchmaking.curriculum import Curriculum
from rllib_ragen.starpo.matchmaking.single_agent import Matchmaker, Play
from rllib_ragen.types import Trajectory

_OF_ALL = ("success", "return_mean", "turns_mean", "valid_ratio", "reply_tokens_mean")
"""What of an evaluation is told of all environments together: their mean, in which each counts the same."""


class SeveralMatchmaker(Matchmaker):
    """One policy, one agent, several environments, each with levels or without."""

    def __init__(self, plan: PolicyPlan) -> None:
        super().__init__(plan)
        self._weights = [world.weight for world in plan.worlds]
        self._labels = [world.label for world in plan.worlds]
        self._curricula = {
            world.label: Curriculum(world.curriculum) for world in plan.worlds if world.curriculum is not None
        }

    def training_specs(self, first_group: int, num_groups: int) -> Sequence[EpisodeSpec]:
        """Returns the episodes of the next groups, shared out by the environments' weights."""
        turns = shared_out(self._weights, first_group, num_groups)
        return mixed_specs(self.plan.seed, turns, self.plan.group_size, self._labels, self._level_of)

    def _level_of(self, turn: Turn) -> int:
        curriculum = self._curricula.get(self._labels[turn.env])
        return -1 if curriculum is None else curriculum.draw(self.plan.seed, turn.env, turn.group)

    def note(self, trajectories: Sequence[Trajectory]) -> None:
        """Takes note of a batch in the curricula."""
        for label, curriculum in self._curricula.items():
            curriculum.note(_groups(trajectories, label))

    def statistics(self, own: Sequence[Trajectory]) -> dict[str, float]:
        """Returns each curriculum's, by its environment."""
        return {
            f"{label}/{name}" if label else name: value
            for label, curriculum in self._curricula.items()
            for name, value in curriculum.metrics(_groups(own, label)).items()
        }

    def evaluate(self, play: Play, split: str, num_instances: int, env: str | None = None) -> dict[str, float]:
        """Returns of each environment what an evaluation of it alone returns, as `<label>/success` and so on.

        Beside it the means over the environments, at their target levels, under the plain names; of a single one its
        own. With `eval_levels: all` earlier levels are `<label>/level_1/success` and so on.

        Raises:
            ValueError: no environment of that label.
        """
        if env is not None and env not in self._labels:
            raise ValueError(f"unknown environment {env!r}; allowed: {', '.join(self._labels)}")
        chosen = [exam for exam in exams(self.plan.worlds) if env in (None, exam.world.label)]
        specs = {exam.path: self._specs(exam, split, num_instances) for exam in chosen}
        played = play([spec for own in specs.values() for spec in own])
        found: dict[str, float] = {}
        targets: list[dict[str, float]] = []
        self.success_by_instance = {}
        for exam in chosen:
            prefix, count = f"{exam.path}/" if exam.path else "", len(specs[exam.path])
            own, played = played[:count], played[count:]
            statistics = evaluation_statistics(own) | {"num_instances": float(count)}
            found |= {f"{prefix}{name}": value for name, value in statistics.items()}
            self.success_by_instance |= {f"{prefix}{key}": mean for key, mean in success_by_instance(own).items()}
            targets += [statistics] if exam.is_target else []
        return found if "success" in found else together(targets) | found

    def _specs(self, exam: Exam, split: str, num_instances: int) -> list[EpisodeSpec]:
        """Returns the very episodes of an evaluation of this environment alone."""
        known = (f"{exam.path}:{split}", num_instances)
        if known not in self._numbers:
            name, task = task_name(exam.config.env.name), exam.config.env.task
            self._numbers[known] = evaluated_numbers(name, task, split, num_instances)
        level = -1 if exam.world.curriculum is None else exam.level
        return [
            replace(spec, group_id=f"{exam.path}/{spec.group_id}".lstrip("/"), env=exam.world.label, level=level)
            for spec in evaluation_specs(split, self._numbers[known])
        ]

    def state(self) -> Tree:
        """Returns the curricula's."""
        return {"curricula": {label: one.state() for label, one in self._curricula.items()}} if self._curricula else {}

    def restore(self, state: Tree) -> None:
        """Takes what `state` gave. Raises ValueError if a curriculum has other levels now."""
        saved = state.get("curricula", {})
        for label, curriculum in self._curricula.items():
            if label in saved:
                curriculum.restore(saved[label])


def together(of: Sequence[dict[str, float]]) -> dict[str, float]:
    """Returns one evaluation of several environments' evaluations: means over environments, sums of counts."""
    number = len(of)
    means = {name: sum(one[name] for one in of) / number for name in _OF_ALL}
    sums = {name: sum(one[name] for one in of) for name in ("num_failed", "num_instances", "distinct_instances")}
    error = sum(one["success_error"] ** 2 for one in of) ** 0.5 / number
    return means | sums | {"success_error": error}


def _groups(trajectories: Sequence[Trajectory], label: str) -> list[tuple[int, float]]:
    """Returns (level, mean success) of an environment's groups, in the order of their numbers; failed ones left out."""
    alive = [one for one in trajectories if one.env == label and one.level >= 0 and not one.stop_reason.failed]
    members = group_members(alive)
    means = {group: sum(alive[i].success for i in own) / len(own) for group, own in members.items()}
    return [(alive[members[group][0]].level, means[group]) for group in sorted(members, key=int)]
