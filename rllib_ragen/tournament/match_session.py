"""A game of a tournament: an episode with a record of all seats' moves, including scripted ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from ray.rllib.env.multi_agent_env import MultiAgentEnv

from ragen_envs.games.env import GameStep, TextGameEnv
from ragen_envs.splits import Split
from rllib_ragen.rollout.conversation import Sampler
from rllib_ragen.rollout.env_answers import reward_of, text_of
from rllib_ragen.rollout.game_answers import GameSpec, read_game_opening
from rllib_ragen.rollout.game_session import GameSession
from rllib_ragen.rollout.scripted_seats import SCRIPT, GameMultiAgentEnv
from rllib_ragen.rollout.session import Steps, on_env
from rllib_ragen.types import StopReason


@dataclass(frozen=True)
class Fixture:
    """A game to play."""

    players: tuple[str, ...]
    """Names of the players, by seat."""
    env_seed: int
    outcome_seed: int
    sampling_seed: int
    split: Split = Split.TEST


@dataclass(frozen=True)
class Move:
    """The move of one reply."""

    seat: str
    seen: str
    """Observation of the seat before the move: all that it knew."""
    action: str
    """Action that was played; empty for a retry or a forfeit."""
    valid: bool
    """Whether the reply named the action; else it was drawn at random by the rule for illegal moves."""


@dataclass
class Record:
    """The record of a game."""

    fixture: Fixture
    outcomes: dict[str, str] = field(default_factory=dict)
    """Outcome by seat: win, draw, loss, or empty if the game was cut off."""
    returns: dict[str, float] = field(default_factory=dict)
    success: dict[str, bool] = field(default_factory=dict)
    moves: list[Move] = field(default_factory=list)
    error: str = ""
    """Error of a failed game, which counts for nobody and has no other entries."""
    instance_key: str = ""
    """Canonical text of the instance, in games whose instances are split by content."""

    @property
    def instance(self) -> str:
        """Identity of the instance: its key, or else the seed that it was drawn with."""
        return self.instance_key or f"seed {self.fixture.env_seed}"

    def seats_of(self, player: str, seats: Sequence[str]) -> list[str]:
        """Returns the seats of `player`."""
        return [seat for seat, name in zip(seats, self.fixture.players, strict=True) if name == player]


class ScoredTable(GameMultiAgentEnv):
    """A game environment that records moves and returns of all seats."""

    def __init__(self, game_env: TextGameEnv) -> None:
        super().__init__(game_env)
        self.moves: list[Move] = []
        self.returns: dict[str, float] = {}

    def begin(self) -> None:
        self.moves, self.returns = [], dict.fromkeys(self.possible_agents, 0.0)

    def move(self, replies: Mapping[str, str]) -> GameStep:
        seen = {seat: self.game_env.game.observe(seat) for seat in replies}
        step = super().move(replies)
        for seat, reward in step.rewards.items():
            self.returns[seat] += reward
        for seat in replies:
            info = step.infos[seat]
            self.moves.append(Move(seat, text_of(seen[seat], "a state"), "".join(info["actions"]), info["valid"]))
        return step


class MatchSession(GameSession):
    """A session of one fixture; `record` is its result. An agent without room for a reply makes an illegal move."""

    mute_when_full = True

    def __init__(self, fixture: Fixture, seats: Sequence[str], models: Mapping[str, Sampler]) -> None:
        """
        Args:
            fixture: the game.
            seats: seats of the game, in the order of the fixture's players.
            models: samplers of models by name; every other name is a scripted player's.
        """
        players = {
            seat: name if name in models else SCRIPT + name
            for seat, name in zip(seats, fixture.players, strict=True)
        }  # fmt: skip
        spec = GameSpec(
            group_id="",
            env_seed=fixture.env_seed,
            outcome_seed=fixture.outcome_seed,
            sampling_seed=fixture.sampling_seed,
            split=fixture.split.value,
            seats=tuple(players.items()),
            script_seed=fixture.sampling_seed,
        )
        super().__init__(spec, models, lambda agent, _: players[agent])
        self._seats = tuple(seats)
        self._models_play = any(name in models for name in fixture.players)
        self.record = Record(fixture)

    def play(self) -> Steps[MultiAgentEnv]:
        if not self._models_play:
            self.record = yield from on_env(partial(play_scripts, self.spec, self.record.fixture))
            return
        yield from super().play()
        self.record = yield from on_env(partial(read_record, self.record.fixture))

    def stop(self, reason: StopReason, error: str = "") -> None:
        super().stop(reason, error)
        self.record.error = error

    def seed_index(self, name: str) -> int:
        return self._seats.index(name)


def play_scripts(spec: GameSpec, fixture: Fixture, env: MultiAgentEnv) -> Record:
    """Plays a whole game between scripts, in the environment's thread: they play at its reset."""
    read_game_opening(spec, env)
    return read_record(fixture, env)


def read_record(fixture: Fixture, env: MultiAgentEnv) -> Record:
    """Returns the record of a finished game; called in the environment's thread."""
    assert isinstance(env, ScoredTable)
    infos = {seat: env.game_env.info(seat) for seat in env.possible_agents}
    return Record(
        fixture,
        outcomes={seat: text_of(info["outcome"], "an outcome") for seat, info in infos.items()},
        returns={seat: reward_of(total, f"seat {seat!r} got") for seat, total in env.returns.items()},
        success={seat: bool(info["success"]) for seat, info in infos.items()},
        moves=env.moves,
        instance_key=env.game_env.game.instance_key if env.game_env.game.has_splits else "",
    )
