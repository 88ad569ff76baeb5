"""Matchmaking for environments with several agents: self-play, a policy per role, a league, scripted opponents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from ray.rllib.core import DEFAULT_MODULE_ID

from ragen_envs.games.baselines import best_script
from ragen_envs.games.registry import make_game
from ragen_envs.seeds import Stream, seed_of
from ragen_envs.tree import Tree
from rllib_ragen.config.environments import is_mixed
from rllib_ragen.config.policy_plan import PolicyPlan
from rllib_ragen.config.schema import MultiAgentSection
from rllib_ragen.rollout.game_answers import GameSpec
from rllib_ragen.rollout.scripted_seats import SCRIPT
from rllib_ragen.rollout.specs import EpisodeSpec, evaluation_specs, training_specs
from rllib_ragen.starpo.matchmaking.league import League, member_ids, score_of
from rllib_ragen.starpo.matchmaking.several import SeveralMatchmaker
from rllib_ragen.starpo.matchmaking.single_agent import Matchmaker, Play, refuse_choice
from rllib_ragen.types import Trajectory

OUTCOMES = ("win", "draw", "loss")
_RANDOM = "uniform"
MapAgent = Callable[..., str]


def policies_of(section: MultiAgentSection, seats: Sequence[str]) -> tuple[list[str], list[str], MapAgent]:
    """Returns (policy ids, ids of trained policies, policy_mapping_fn) of a mode."""
    if section.mode == "per_role":
        return list(seats), list(seats), _own_role
    if section.mode == "league":
        return [DEFAULT_MODULE_ID, *member_ids(section.league_size)], [DEFAULT_MODULE_ID], _learner
    return [DEFAULT_MODULE_ID], [DEFAULT_MODULE_ID], _learner


def _own_role(agent_id: str, episode: object, **kwargs: object) -> str:
    return agent_id


def _learner(agent_id: str, episode: object, **kwargs: object) -> str:
    return str(DEFAULT_MODULE_ID)


class GameMatchmaker(Matchmaker):
    """The matchmaker of several agents. In `league` and `against` the trained policy has one seat, in turn by group."""

    def __init__(self, plan: PolicyPlan) -> None:
        super().__init__(plan)
        self._section = plan.section
        self._game = plan.game
        game = make_game(plan.game, **plan.task) if plan.game else None
        self._seats = list(game.seats) if game else []
        self._cooperative = game is not None and game.cooperative
        self._league = League(plan.section.league_size) if plan.section.mode == "league" else None
        self._last_score = float("nan")

    def training_specs(self, first_group: int, num_groups: int) -> Sequence[EpisodeSpec]:
        """Returns the episodes of the next groups; all games of a group have the same players."""
        specs = training_specs(self.plan.seed, first_group, num_groups, self.plan.group_size)
        return [_with_seats(spec, self._others(int(spec.group_id))) for spec in specs]

    def _others(self, group: int) -> tuple[tuple[str, str], ...]:
        """Returns the players of the seats that are not mapped by policy_mapping_fn."""
        if self._section.mode not in ("league", "against"):
            return ()
        learner = group % len(self._seats)
        return tuple((seat, self._opponent(group, index)) for index, seat in enumerate(self._seats) if index != learner)

    def _opponent(self, group: int, seat: int) -> str:
        if self._league is None:
            return SCRIPT + self._section.opponent
        return self._league.opponent(self.plan.seed, group, seat)

    def statistics(self, own: Sequence[Trajectory]) -> dict[str, float]:
        """Returns win_rate, draw_rate, loss_rate and return of each seat over the batch's games, and the league's
        size.
        """
        found = seat_statistics(own, sorted({trajectory.agent_id for trajectory in own}))
        if self._league is not None:
            found["league_members"] = float(len(self._league.joined))
            found["league_score"] = score_of(own) or 0.0
        return found

    def evaluate(self, play: Play, split: str, num_instances: int, env: str | None = None) -> dict[str, float]:
        """Returns `num_instances` games against each scripted opponent, the seats in turn; the same games every time.

        In a cooperative game, also in as many games of the policies among themselves.

        Returns:
            evaluation_statistics and num_instances: of the games against the random player; in a cooperative game of
            the first seat in those among themselves. Of every seat and opponent: win_rate, draw_rate, loss_rate and
            return, as `win_rate_<seat>_vs_<opponent>`; among themselves it is `_vs_itself`. Environments without
            scripted players: evaluation_statistics of the policies among themselves.
        """
        refuse_choice(env)
        if self._game is None:
            trajectories = self.own(play(evaluation_specs(split, range(num_instances))))
            return self._evaluated(trajectories, num_instances)
        found: dict[str, float] = {}
        if self._cooperative:
            specs = self._together(split, num_instances)
            trajectories = play(specs)
            found |= seat_statistics(trajectories, self._seats, "_vs_itself")
            first = [trajectory for trajectory in trajectories if trajectory.agent_id == self._seats[0]]
            found |= self._evaluated(first, len(specs))
        best = best_script(self._game)
        for number, opponent in enumerate([_RANDOM] if best is None else [_RANDOM, best]):
            specs = self._against(split, num_instances, opponent, number)
            trajectories = play(specs)
            found |= seat_statistics(trajectories, self._seats, f"_vs_{opponent}")
            if opponent == _RANDOM and not self._cooperative:
                found |= self._evaluated(trajectories, len(specs))
        return found

    def _together(self, split: str, num_games: int) -> list[GameSpec]:
        """Returns games on the split's instances, with all seats mapped by policy_mapping_fn."""
        return [_with_seats(spec, ()) for spec in evaluation_specs(split, self.evaluated(split, num_games))]

    def _against(self, split: str, num_games: int, opponent: str, number: int) -> list[GameSpec]:
        """Returns games on each instance with the evaluated policy at every seat in turn.

        Most games have too few instances to be split by content, as tasks are: here each split has seeds of its own.
        """
        specs = []
        instances = evaluation_specs(split, self.evaluated(split, -(-num_games // len(self._seats))))
        for game in range(min(num_games, len(instances) * len(self._seats))):
            instance, mine = divmod(game, len(self._seats))
            others = tuple((seat, SCRIPT + opponent) for k, seat in enumerate(self._seats) if k != mine)
            spec = instances[instance]
            outcome = seed_of(Stream.EVALUATION_OUTCOME, spec.outcome_seed, mine, number)
            sampling = seed_of(Stream.EVALUATION_SAMPLING, spec.sampling_seed, mine, number)
            specs.append(GameSpec(f"{split}-{game}", spec.env_seed, outcome, sampling, split, seats=others))
        return specs

    def to_copy(self, iteration: int, own: Sequence[Trajectory]) -> tuple[str, str] | None:
        """Returns (policy, league member to copy it to) if the policy is to join the league, else None."""
        if self._league is None:
            return None
        place = self._league.place_to_take(self._section, iteration, score_of(own))
        return None if place is None else (self.main, self._league.join(place, iteration))

    def state(self) -> Tree:
        """Returns the league's state."""
        return {} if self._league is None else {"league": self._league.state()}

    def restore(self, state: Tree) -> None:
        """Restores a `state`. Raises ValueError if the league is smaller now."""
        if self._league is not None:
            self._league.restore(state.get("league", {}))


def seat_statistics(trajectories: Sequence[Trajectory], seats: Sequence[str], suffix: str = "") -> dict[str, float]:
    """Computes for each seat the shares of won, drawn and lost games (with outcomes), and the mean return; NaN if none.

    Failed games do not count.
    """
    found: dict[str, float] = {}
    for seat in seats:
        own = [t for t in trajectories if t.agent_id == seat and not t.stop_reason.failed]
        told = Counter(trajectory.outcome for trajectory in own if trajectory.outcome in OUTCOMES)
        for outcome in OUTCOMES:
            share = told[outcome] / told.total() if told else float("nan")
            found[f"{outcome}_rate_{seat}{suffix}"] = share
        returns = [trajectory.env_return for trajectory in own]
        found[f"return_{seat}{suffix}"] = float(np.mean(returns)) if returns else float("nan")
    return found


def _with_seats(spec: EpisodeSpec, seats: tuple[tuple[str, str], ...]) -> GameSpec:
    return GameSpec(spec.group_id, spec.env_seed, spec.outcome_seed, spec.sampling_seed, spec.split, seats=seats)


def make_matchmaker(plan: PolicyPlan) -> Matchmaker:
    """Says who plays in a run of `plan`."""
    if plan.several_agents:
        return GameMatchmaker(plan)
    return SeveralMatchmaker(plan) if is_mixed(plan.worlds) else Matchmaker(plan)
