"""A league: frozen earlier copies of the policy as opponents; the policy joins it when it beats it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragen_envs.seeds import Stream, seed_of
from ragen_envs.tree import Tree
from rllib_ragen.config.schema import MultiAgentSection
from rllib_ragen.types import Trajectory

_PREFIX = "league_"
_WORTH = {"win": 1.0, "draw": 0.5, "loss": 0.0}


def member_ids(size: int) -> list[str]:
    """Returns the policy ids of a league's places."""
    return [f"{_PREFIX}{place}" for place in range(size)]


@dataclass
class League:
    """The taken places, and when each was taken; the copies' weights are in the learner.

    The first member is the policy as the run begins. Later ones take the free places, then the oldest member's.
    """

    size: int
    joined: list[int] = field(default_factory=lambda: [0])
    """Iteration after which the policy was copied, by place."""

    def opponent(self, run_seed: int, group: int, seat: int) -> str:
        """Draws the member at `seat` in all games of `group`, uniformly."""
        place = seed_of(Stream.LEAGUE_OPPONENT, run_seed, group, seat) % len(self.joined)
        return f"{_PREFIX}{place}"

    def place_to_take(self, section: MultiAgentSection, iteration: int, score: float | None) -> int | None:
        """Returns the place that the policy takes after `iteration`, or None.

        Args:
            section: `league_win_rate` and `league_interval`.
            iteration: number of finished iterations.
            score: score of the iteration's games against the league (`score_of`); None: there was none.
        """
        beats = section.league_win_rate is not None and score is not None and score >= section.league_win_rate
        due = section.league_interval > 0 and iteration - max(self.joined) >= section.league_interval
        if not (beats or due):
            return None
        return len(self.joined) if len(self.joined) < self.size else self.joined.index(min(self.joined))

    def join(self, place: int, iteration: int) -> str:
        """Takes the place → the policy id to copy the weights to."""
        self.joined[place : place + 1] = [iteration]
        return f"{_PREFIX}{place}"

    def state(self) -> Tree:
        """Returns the state for a checkpoint."""
        return {"joined": list(self.joined)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restores a `state`. Raises ValueError if it is of a larger league."""
        joined = list(state.get("joined", [0]))
        if len(joined) > self.size:
            raise ValueError(f"multi_agent.league_size={self.size}, but the checkpoint's league has {len(joined)}")
        self.joined = joined


def score_of(trajectories: Sequence[Trajectory]) -> float | None:
    """Returns the mean score of games: 1 a win, ½ a draw, 0 a loss; None if no game has an outcome."""
    worth = [_WORTH[trajectory.outcome] for trajectory in trajectories if trajectory.outcome in _WORTH]
    return sum(worth) / len(worth) if worth else None
