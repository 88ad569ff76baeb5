"""Where an iteration's trajectories come from: they are played, or taken from stored ones."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Protocol

from ragen_envs.seeds import Stream, generator
from rllib_ragen.rollout.specs import EpisodeSpec
from rllib_ragen.rollout.statistics import policy_lag
from rllib_ragen.starpo.config import StarPOConfig
from rllib_ragen.starpo.counters import Batch, Counters
from rllib_ragen.starpo.matchmaking.single_agent import Matchmaker
from rllib_ragen.starpo.offline import Groups
from rllib_ragen.starpo.rollouts import Rollouts
from rllib_ragen.types import Trajectory


class Batches(Protocol):
    """The batches that a run learns from, one after the other: `Counters.next_group` says which is the next."""

    def take(self, counters: Counters) -> Batch:
        """Returns the next batch, and counts its groups."""

    def peek(self, counters: Counters) -> list[Trajectory]:
        """Returns the next batch's trajectories as they would be now; nothing is counted."""

    def lag(self, trajectories: Sequence[Trajectory], counters: Counters) -> float:
        """Returns `policy_lag`; NaN where versions are another run's."""


class PlayedBatches:
    """Batches that the env runners play, with the weights that they have."""

    def __init__(self, config: StarPOConfig, rollouts: Rollouts, matchmaker: Matchmaker) -> None:
        self._rounds = config.credit_section().dynamic_sampling_rounds
        self._num_groups: int = config.num_groups
        self._rollouts, self._matchmaker = rollouts, matchmaker

    def take(self, counters: Counters) -> Batch:
        """Plays the groups; where that fails they stay the next ones."""

        def next_specs(num_groups: int) -> Sequence[EpisodeSpec]:
            specs = self._matchmaker.training_specs(counters.next_group, num_groups)
            counters.next_group += num_groups
            return specs

        first_group = counters.next_group
        try:
            return self._rollouts.play_batch(next_specs, self._num_groups, self._rounds)
        except BaseException:
            # Nothing of it is learnt from: whoever goes on from here plays these groups.
            counters.next_group = first_group
            raise

    def peek(self, counters: Counters) -> list[Trajectory]:
        """Plays the groups."""
        specs = self._matchmaker.training_specs(counters.next_group, self._num_groups)
        return self._rollouts.play(specs, count=False).trajectories

    def lag(self, trajectories: Sequence[Trajectory], counters: Counters) -> float:
        """Returns `policy_lag`."""
        return policy_lag(trajectories, counters.policy_version)


class StoredBatches:
    """Batches of stored groups: pass after pass over all of them, each in another order."""

    def __init__(self, groups: Groups, config: StarPOConfig) -> None:
        self._groups, self._run_seed = groups, config.seed
        self._num_groups: int = config.num_groups

    def take(self, counters: Counters) -> Batch:
        """Returns the groups, and `data_passes`: how often all have been taken by now."""
        started = perf_counter()
        trajectories = self.peek(counters)
        counters.next_group += self._num_groups
        passes = counters.next_group / len(self._groups)
        return Batch(trajectories, [], perf_counter() - started, {"data_passes": passes})

    def peek(self, counters: Counters) -> list[Trajectory]:
        """Returns the groups. One that a batch holds twice, because a pass ends in it, is two groups there."""
        first = counters.next_group
        return [one for place in range(first, first + self._num_groups) for one in self._at(place)]

    def lag(self, trajectories: Sequence[Trajectory], counters: Counters) -> float:
        """Returns NaN: versions are those of the runs that sampled."""
        return float("nan")

    def _at(self, place: int) -> list[Trajectory]:
        done, index = divmod(place, len(self._groups))
        order = generator(Stream.OFFLINE_ORDER, self._run_seed, done).permutation(len(self._groups))
        return self._groups.group(int(order[index]), f"{done}/")


def batches_of(config: StarPOConfig, stored: Groups | None, rollouts: Rollouts, matchmaker: Matchmaker) -> Batches:
    """Says where a run's batches come from: from `stored`, if there are such groups."""
    if stored is not None:
        return StoredBatches(stored, config)
    return PlayedBatches(config, rollouts, matchmaker)
