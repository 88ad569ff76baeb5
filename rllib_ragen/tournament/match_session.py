"""A game of a tournament: an episode whose record holds what every seat did, scripted ones too."""

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
    """A game to be played."""

    players: tuple[str, ...]
    """Who sits at each seat, by name."""
    env_seed: int
    outcome_seed: int
    sampling_seed: int
    split: Split = Split.TEST


@dataclass(frozen=True)
class Move:
    """What was played for one reply."""

    seat: str
    seen: str
    """The seat's observation before it: all it knew."""
    action: str
    """Empty if nothing was played: a retry, or a forfeit."""
    valid: bool
    """The reply named it; else it was drawn at random by the rule for illegal moves."""


@dataclass
class Record:
    """A game that was played."""

    fixture: Fixture
    outcomes: dict[str, str] = field(default_factory=dict)
    """Outcome by seat: win, draw, loss, or empty if the game was cut off."""
    returns: dict[str, float] = field(default_factory=dict)
    success: dict[str, bool] = field(default_factory=dict)
    moves: list[Move] = field(default_factory=list)
    error: str = ""
    """What ended it, if it failed: then it counts for nobody, and the rest is empty."""
    instance_key: str = ""
    """Canonical text of the instance, in games whose instances are split by content."""

    @property
    def instance(self) -> str:
        """What tells instances apart: their key, or else the seed that they were drawn with."""
        return self.instance_key or f"seed {self.fixture.env_seed}"

    def seats_of(self, player: str, seats: Sequence[str]) -> list[str]:
        """Returns the seats that `player` had."""
        return [seat for seat, name in zip(seats, self.fixture.players, strict=True) if name == player]


class ScoredTable(GameMultiAgentEnv):
    """A game that keeps its score: moves and returns of all seats."""

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
    """Plays one fixture; `record` is what came of it. Who has no room for a reply says nothing: an illegal move."""

    mute_when_full = True

    def __init__(self, fixture: Fixture, seats: Sequence[str], models: Mapping[str, Sampler]) -> None:
        """
        Args:
            fixture: the game.
            seats: its seats, in the order of the fixture's players.
            models: by name; every other name is that of a scripted player.
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
    """Returns a whole game between scripts, in the environment's thread: they play as soon as it has begun."""
    read_game_opening(spec, env)
    return read_record(fixture, env)


def read_record(fixture: Fixture, env: MultiAgentEnv) -> Record:
    """Returns the record of a game that is over; in the environment's thread."""
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
