"""Which episodes are played: everything random about them follows from the run seed and a counter."""

from __future__ import annotations

from dataclasses import dataclass

from rllib_ragen.rollout.seeds import derived_seed

GROUPS_PER_SEED = 10_000_000
"""Group seeds of run seed s are s · GROUPS_PER_SEED + counter: distinct by construction, never by luck."""
_OUTCOME, _SAMPLING, _EVALUATION = 1, 2, 3


@dataclass(frozen=True)
class EpisodeSpec:
    """What makes an episode what it is: task instance, luck inside it, and the sampler's luck."""

    group_id: str
    env_seed: int
    outcome_seed: int
    sampling_seed: int
    split: str = "train"


def training_specs(run_seed: int, first_group: int, num_groups: int, group_size: int) -> list[EpisodeSpec]:
    """`num_groups` groups of `group_size` episodes each.

    Members of a group share the instance (env_seed), and neither the luck inside it nor the sampler's.

    Args:
        run_seed: ≥ 0.
        first_group: groups that the run has drawn before.
        num_groups: task instances.
        group_size: episodes per instance.

    Raises:
        ValueError: the run seed's groups are used up.
    """
    if first_group + num_groups > GROUPS_PER_SEED:
        raise ValueError(f"a run has {GROUPS_PER_SEED} groups at most")
    return [
        EpisodeSpec(
            group_id=str(group),
            env_seed=run_seed * GROUPS_PER_SEED + group,
            outcome_seed=derived_seed(run_seed, _OUTCOME, group, member),
            sampling_seed=derived_seed(run_seed, _SAMPLING, group, member),
        )
        for group in range(first_group, first_group + num_groups)
        for member in range(group_size)
    ]


def evaluation_specs(split: str, num_instances: int) -> list[EpisodeSpec]:
    """One episode on each of the first `num_instances` instances of `split`, the same for every run and run seed."""
    return [
        EpisodeSpec(
            group_id=f"{split}-{i}",
            env_seed=i,
            outcome_seed=derived_seed(_EVALUATION, _OUTCOME, i),
            sampling_seed=derived_seed(_EVALUATION, _SAMPLING, i),
            split=split,
        )
        for i in range(num_instances)
    ]
