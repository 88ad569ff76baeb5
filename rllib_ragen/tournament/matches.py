"""Plays many games at once between players, each in its own conversation per seat."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, combinations_with_replacement

from ragen_envs.games.env import TextGameEnv
from ragen_envs.games.game import Outcome, TextGame
from ragen_envs.seeds import Stream, seed_of
from ragen_envs.splits import Split
from rllib_ragen.tournament.players import Place, Question, TablePlayer

MAX_TABLES = 128


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
    """By seat: win, draw, loss, or empty if the game was cut off."""
    returns: dict[str, float] = field(default_factory=dict)
    success: dict[str, bool] = field(default_factory=dict)
    moves: list[Move] = field(default_factory=list)

    def seats_of(self, player: str, seats: Sequence[str]) -> list[str]:
        """The seats that `player` had."""
        return [seat for seat, name in zip(seats, self.fixture.players, strict=True) if name == player]


def round_robin(names: Sequence[str], game: TextGame, plays: int, seed: int) -> list[Fixture]:
    """Every two players, `plays` games in either order of seats; all pairs get the same test instances.

    In a cooperative game each also plays with itself.

    Raises:
        ValueError: the game is not for two, or fewer than two players (one, in a cooperative game).
    """
    if len(game.seats) != 2:
        raise ValueError(f"{game.title} has {len(game.seats)} seats; matches are for two")
    pairs: Iterator[tuple[str, str]] = combinations(names, 2)
    if game.cooperative:
        pairs = combinations_with_replacement(names, 2)
    orders = [order for one, other in pairs for order in dict.fromkeys([(one, other), (other, one)])]
    if not orders:
        raise ValueError("matches need two players")
    return [Fixture(order, *_seeds_of(seed, i, number)) for number, order in enumerate(orders) for i in range(plays)]


def _seeds_of(seed: int, instance: int, order: int) -> tuple[int, int, int]:
    """Of the deal, of the luck inside it, and of the replies: the last one differs between orders of seats."""
    return (
        seed_of(Stream.TOURNAMENT_INSTANCES, seed, instance),
        seed_of(Stream.TOURNAMENT_OUTCOME, seed, instance),
        seed_of(Stream.TOURNAMENT_SAMPLING, seed, instance, order),
    )


def play_all(
    fixtures: Sequence[Fixture],
    players: Iterable[TablePlayer],
    make_env: Callable[[], TextGameEnv],
    progress: Callable[[int], None] = lambda done: None,
) -> list[Record]:
    """Plays the fixtures, up to 128 at once → records in their order.

    A reply depends on its own conversation and seed only, so the result does not depend on how many are played at once.

    Args:
        fixtures: the games.
        players: everybody that the fixtures name.
        make_env: makes a table; tables are used again.
        progress: is told how many games are over.
    """
    hall = _Hall({player.name: player for player in players}, make_env)
    waiting, records = deque(enumerate(fixtures)), {}
    while waiting or hall.tables:
        while waiting and len(hall.tables) < MAX_TABLES:
            hall.open(*waiting.popleft())
        for number, record in hall.serve():
            records[number] = record
            progress(len(records))
    return [records[number] for number in range(len(fixtures))]


@dataclass
class _Table:
    env: TextGameEnv
    record: Record
    asked: set[str] = field(default_factory=set)
    turns: dict[str, int] = field(default_factory=dict)


class _Hall:
    """The tables that are in play."""

    def __init__(self, players: Mapping[str, TablePlayer], make_env: Callable[[], TextGameEnv]) -> None:
        self.tables: dict[int, _Table] = {}
        self._players, self._make_env = players, make_env
        self._free: list[TextGameEnv] = []

    def open(self, number: int, fixture: Fixture) -> None:
        """Starts a game and asks those who are to act."""
        env = self._free.pop() if self._free else self._make_env()
        options = {"split": fixture.split.value, "outcome_seed": fixture.outcome_seed}
        prompts, _ = env.reset(seed=fixture.env_seed, options=options)
        table = _Table(env, Record(fixture, returns=dict.fromkeys(env.possible_agents, 0.0)))
        self.tables[number] = table
        self._ask(number, table, prompts)

    def serve(self) -> list[tuple[int, Record]]:
        """Lets every player answer once → the games that are over by that."""
        over = []
        for player in self._players.values():
            for place, text in player.answers():
                table = self.tables[place.game]
                self._step(place, table, text)
                if not table.env.agents:
                    over.append((place.game, self._close(place.game)))
        return over

    def _ask(self, number: int, table: _Table, prompts: Mapping[str, str]) -> None:
        for seat in table.env.to_act:
            if seat in table.asked:
                continue
            table.asked.add(seat)
            turn = table.turns.get(seat, 0)
            table.turns[seat] = turn + 1
            seed = seed_of(
                Stream.TURN_SAMPLING, table.record.fixture.sampling_seed, table.env.possible_agents.index(seat), turn
            )
            question = Question(Place(number, seat), table.env.system_prompt, prompts[seat], table.env.game, seed)
            self._player(table, seat).ask(question)

    def _step(self, place: Place, table: _Table, text: str) -> None:
        seen = table.env.game.observe(place.seat)
        table.asked.discard(place.seat)
        step = table.env.step({place.seat: text})
        for seat, reward in step.rewards.items():
            table.record.returns[seat] += reward
        info = step.infos[place.seat]
        # A move that is held back until the others have made theirs is known already.
        table.record.moves.append(Move(place.seat, seen, "".join(info["actions"]), info["valid"]))
        self._ask(place.game, table, step.observations)

    def _close(self, number: int) -> Record:
        table = self.tables.pop(number)
        for seat in table.env.possible_agents:
            info = table.env.info(seat)
            table.record.outcomes[seat], table.record.success[seat] = info["outcome"], info["success"]
            self._player(table, seat).forget(Place(number, seat))
        self._free.append(table.env)
        return table.record

    def _player(self, table: _Table, seat: str) -> TablePlayer:
        return self._players[table.record.fixture.players[table.env.possible_agents.index(seat)]]


def score(outcome: str) -> float | None:
    """1 for a win, ½ for a draw, 0 for a loss; None for a game that was cut off."""
    return {Outcome.WIN.value: 1.0, Outcome.DRAW.value: 0.5, Outcome.LOSS.value: 0.0}.get(outcome)
