"""Specifications of episodes: all of their seeds follow from the run seed and a counter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ragen_envs.seeds import BLOCK, Stream, block_of, seed_of
from ragen_envs.splits import Split, instance_seed
from ragen_envs.tree import Tree
from rllib_ragen.rollout.shares import Turn

GROUPS_PER_SEED = BLOCK
"""Most groups of a run: their seeds are consecutive, and so distinct by construction."""


@dataclass(frozen=True)
class EpisodeSpec:
    """The three seeds of an episode: task instance, outcome seed and sampling seed."""

    group_id: str
    env_seed: int
    outcome_seed: int
    sampling_seed: int
    split: str = "train"
    env: str = ""
    """Label of the environment among several; empty: it is the only one."""
    level: int = -1
    """Index of the curriculum's level; −1: there is none."""

    @property
    def options(self) -> Tree:
        """What the environment's `reset` is told beside its seed."""
        plain = {"split": self.split, "outcome_seed": self.outcome_seed}
        return plain | ({"env": self.env} if self.env else {}) | ({"level": self.level} if self.level >= 0 else {})


def training_specs(run_seed: int, first_group: int, num_groups: int, group_size: int) -> list[EpisodeSpec]:
    """Returns `num_groups` groups of `group_size` episodes each.

    Members of a group share the instance (env_seed), but neither the outcome seed nor the sampling seed.

    Args:
        run_seed: ≥ 0.
        first_group: number of groups that the run has drawn before.
        num_groups: task instances.
        group_size: episodes per instance.

    Raises:
        ValueError: the run seed's groups are used up.
    """
    if first_group + num_groups > GROUPS_PER_SEED:
        raise ValueError(f"a run has {GROUPS_PER_SEED} groups at most")
    first_seed = block_of(Stream.TRAINING_INSTANCES, run_seed)
    return [
        EpisodeSpec(
            group_id=str(group),
            env_seed=first_seed + group,
            outcome_seed=seed_of(Stream.TRAINING_OUTCOME, run_seed, group, member),
            sampling_seed=seed_of(Stream.TRAINING_SAMPLING, run_seed, group, member),
        )
        for group in range(first_group, first_group + num_groups)
        for member in range(group_size)
    ]


def mixed_specs(
    run_seed: int,
    turns: Sequence[Turn],
    group_size: int,
    labels: Sequence[str],
    level_of: Callable[[Turn], int],
) -> list[EpisodeSpec]:
    """Returns the groups of `turns`, `group_size` episodes each, of environments and levels that differ from group to
    group.

    Every environment's levels go through blocks of instance seeds of their own, by the number of groups that the
    environment had before.

    Args:
        run_seed: ≥ 0.
        turns: whose turn each group is (`shared_out`).
        group_size: episodes per instance.
        labels: of the environments.
        level_of: the level of a group; −1 where the environment has none.

    Raises:
        ValueError: the run seed's groups are used up.
    """
    if turns and turns[-1].group >= GROUPS_PER_SEED:
        raise ValueError(f"a run has {GROUPS_PER_SEED} groups at most")
    found = []
    for turn in turns:
        level = level_of(turn)
        first_seed = block_of(Stream.TRAINING_INSTANCES, run_seed, turn.env, level + 1)
        found += [
            EpisodeSpec(
                group_id=str(turn.group),
                env_seed=first_seed + turn.before,
                outcome_seed=seed_of(Stream.TRAINING_OUTCOME, run_seed, turn.group, member),
                sampling_seed=seed_of(Stream.TRAINING_SAMPLING, run_seed, turn.group, member),
                env=labels[turn.env],
                level=level,
            )
            for member in range(group_size)
        ]
    return found


def evaluation_specs(split: str, numbers: Sequence[int]) -> list[EpisodeSpec]:
    """Returns one episode on each instance of `split` with one of these numbers, the same for every run and run seed.

    `distinct_numbers` finds numbers of different instances.
    """
    own = list(Split).index(Split.parse(split))
    return [
        EpisodeSpec(
            group_id=f"{split}-{number}",
            env_seed=instance_seed(split, number),
            outcome_seed=seed_of(Stream.EVALUATION_OUTCOME, own, number),
            sampling_seed=seed_of(Stream.EVALUATION_SAMPLING, own, number),
            split=split,
        )
        for number in numbers
    ]
