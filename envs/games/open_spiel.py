"""Any game of OpenSpiel as a TextGame, in OpenSpiel's own words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ragen_envs.games.extras import needed
from ragen_envs.games.game import Outcome, TextGame
from ragen_envs.seeds import Stream, generator
from ragen_envs.splits import Split, draw_instance
from ragen_envs.task import chance_seed

_MANY_STARTS = 500
"""Least number of starts for which there are splits, chosen freely: with few starts each split would be another
game.
"""
_SEED = "rng_seed"
"""Name of the seed parameter of games that draw their chance inside OpenSpiel."""


class _Start(NamedTuple):
    """OpenSpiel's state before the first move, and the canonical text of its chance outcomes."""

    state: Any
    key: str


class OpenSpielGame(TextGame):
    """A game by its OpenSpiel name, such as `liars_dice(numdice=1)`: turns one by one or at once, any number of seats.

    Chance before the first move makes the instance, decided by `seed`; chance after it is decided by `outcome_seed`.
    A game that draws its chance inside OpenSpiel is loaded anew for each instance, with its own seed.
    Rewards are OpenSpiel's. The greatest return wins; in a cooperative game all seats win with a return of at least
    `target`. A forfeit gives the seat the lowest return of the game and ends it for all: in a zero-sum game the others
    share the difference, in a cooperative one they lose too, else they keep what they have.

    Args:
        game: OpenSpiel's name of the game, with its parameters in brackets if they are not the defaults.
        target: return from which a cooperative game counts as won; None: the greatest possible.

    Raises:
        ValueError: open-spiel is not installed, or it has no such game or parameter, or the game has no
            turns, or chance that the instance's seeds cannot decide.
    """

    def __init__(self, game: str = "liars_dice", target: float | None = None) -> None:
        pyspiel = needed("pyspiel", "open-spiel", game.split("(")[0])
        try:
            self._game: Any = pyspiel.load_game(game)
        except pyspiel.SpielError as error:
            raise ValueError(f"OpenSpiel cannot load {game!r}: {str(error).splitlines()[0]}") from None
        kind = self._game.get_type()
        if kind.dynamics == pyspiel.GameType.Dynamics.MEAN_FIELD:
            raise ValueError(f"{game!r} is a mean-field game: it has no seats that take turns")
        self._load = pyspiel.load_game
        self._draws_inside = kind.chance_mode == pyspiel.GameType.ChanceMode.SAMPLED_STOCHASTIC
        if self._draws_inside:
            self._check_seedable(pyspiel.game_parameters_from_string(game), pyspiel.SpielError)
        self.title = kind.long_name
        self.seats = tuple(f"player_{number}" for number in range(self._game.num_players()))
        self.zero_sum = kind.utility == pyspiel.GameType.Utility.ZERO_SUM
        self.cooperative = kind.utility == pyspiel.GameType.Utility.IDENTICAL
        self.perfect_information = kind.information == pyspiel.GameType.Information.PERFECT_INFORMATION
        self.target = float(self._game.max_utility()) if target is None else target
        self.has_splits = self._draws_inside or self._num_starts() >= _MANY_STARTS
        self._recalls = kind.provides_information_state_string and not self.perfect_information
        self._state: Any = None
        self._key = ""
        self._chance_seed = 0
        self._returns: tuple[float, ...] = (0.0,) * len(self.seats)
        self._forfeited: tuple[str, ...] = ()

    def reset(self, seed: int, split: Split, outcome_seed: int) -> None:
        """Draws the chance before the first move by `seed`. Raises ValueError for a negative seed."""
        if seed < 0:
            raise ValueError(f"instance seed must be ≥ 0, got {seed}")
        if self.has_splits:
            self._state, self._key = draw_instance(seed, split, self._draw_start, lambda start: start.key)
        else:
            self._state, self._key = self._draw_start(np.random.default_rng(seed))
        self._chance_seed, self._forfeited = chance_seed(outcome_seed), ()
        self._returns = tuple(self._state.returns())

    def rules(self) -> str:
        """Returns the game's name and rewards: OpenSpiel has no rules in words."""
        game = self._game
        end = (
            f"All players get the same reward, and win with {self.target:g} or more"
            if self.cooperative
            else "The highest return wins"
        )
        return (
            f"{self.title} for {len(self.seats)} players, as OpenSpiel's {game}. The return of a game is "
            f"{game.min_utility():g} to {game.max_utility():g}. {end}. Your actions are listed when you are to move."
        )

    def observe(self, seat: str) -> str:
        """Returns OpenSpiel's text of what the seat knows: the position, or with hidden information all it has seen."""
        index = self.seats.index(seat)
        return f"You are player {index}\n{self._seen(self._state, index).strip()}"

    @property
    def to_move(self) -> tuple[str, ...]:
        """The seats that OpenSpiel asks for an action."""
        if self._state is None or self._forfeited or self._state.is_terminal():
            return ()
        if self._state.is_simultaneous_node():
            return tuple(seat for index, seat in enumerate(self.seats) if self._state.legal_actions(index))
        return (self.seats[self._state.current_player()],)

    def legal_actions(self, seat: str) -> list[str]:
        """Returns OpenSpiel's names of its legal actions."""
        return list(self._named_actions(seat)) if seat in self.to_move else []

    def outcome(self, seat: str) -> Outcome | None:
        """Compares returns, or checks `target` in a cooperative game; a seat that forfeits loses."""
        if self.to_move or self._state is None:
            return None
        if self._forfeited:
            return Outcome.LOSS if self.cooperative or seat in self._forfeited else Outcome.WIN
        mine = self._returns[self.seats.index(seat)]
        if self.cooperative:
            return Outcome.WIN if mine >= self.target else Outcome.LOSS
        best = max(self._returns)
        if mine < best:
            return Outcome.LOSS
        return Outcome.WIN if self._returns.count(best) == 1 else Outcome.DRAW

    @property
    def instance_key(self) -> str:
        """The chance outcomes before the first move, as OpenSpiel's action numbers, or as the seats see them."""
        return self._key

    @property
    def position_key(self) -> str:
        """The whole history, and the seed of the chance to come."""
        return f"{self._key} {self._state.history_str()} {self._chance_seed} {self._forfeited}"

    @property
    def _least(self) -> float:
        """The return of a seat that forfeits: the lowest of the game."""
        return float(self._game.min_utility())

    def _action_name(self, index: int, action: int) -> str:
        """Returns the readable name of `action` of the seat numbered `index`."""
        return str(self._state.action_to_string(index, action))

    def _named_actions(self, seat: str) -> dict[str, int]:
        """Returns OpenSpiel's number by name of each legal action; names that differ only in case get the number as
        well.
        """
        index = self.seats.index(seat)
        pairs = [(" ".join(self._action_name(index, n).split()), n) for n in self._state.legal_actions(index)]
        lower = [name.lower() for name, _ in pairs]
        return {name if lower.count(name.lower()) == 1 else f"{name} ({n})": n for name, n in pairs}

    def _play(self, moves: Mapping[str, str]) -> dict[str, float]:
        state = self._state.clone()
        numbers = {seat: self._named_actions(seat)[action] for seat, action in moves.items()}
        if state.is_simultaneous_node():
            state.apply_actions([numbers.get(seat, 0) for seat in self.seats])
        else:
            state.apply_action(*numbers.values())
        while state.is_chance_node():
            rng = generator(Stream.GAME_CHANCE, self._chance_seed, state.move_number())
            state.apply_action(_drawn(state, rng))
        self._state = state
        return self._paid(tuple(state.returns()))

    def _forfeit(self, losers: tuple[str, ...]) -> dict[str, float]:
        least = self._least
        self._forfeited = losers
        if self.cooperative:
            return self._paid((least,) * len(self.seats))
        others = [seat for seat in self.seats if seat not in losers]
        share = (float(self._game.utility_sum()) - least * len(losers)) / len(others) if self.zero_sum and others else 0
        return self._paid(
            tuple(
                least if seat in losers else share if self.zero_sum else had
                for seat, had in zip(self.seats, self._returns, strict=True)
            )
        )

    def _paid(self, returns: tuple[float, ...]) -> dict[str, float]:
        before, self._returns = self._returns, returns
        return {seat: returns[i] - before[i] for i, seat in enumerate(self.seats)}

    def _seen(self, state: Any, index: int) -> str:
        return str((state.information_state_string if self._recalls else state.observation_string)(index))

    def _draw_start(self, rng: np.random.Generator) -> _Start:
        game = self._seeded(int(rng.integers(2**31))) if self._draws_inside else self._game
        state = game.new_initial_state()
        while state.is_chance_node():
            state.apply_action(_drawn(state, rng))
        if not self._draws_inside:
            return _Start(state, str(tuple(state.history())))
        return _Start(state, "\n".join(self._seen(state, index) for index in range(len(self.seats))))

    def _seeded(self, seed: int) -> Any:
        """Loads the game again with its own seed, because all states of one game draw from that game's generator."""
        return self._load(self._game.get_type().short_name, self._game.get_parameters() | {_SEED: seed})

    def _check_seedable(self, given: Mapping[str, object], refusal: type[Exception]) -> None:
        """Raises ValueError if the instance seed cannot decide the chance that is drawn inside OpenSpiel."""
        name = self._game.get_type().short_name
        if _SEED in given:
            raise ValueError(f"{name}: leave {_SEED} out, the instance's seed decides it")
        unreached = "inside OpenSpiel, where no seed of an instance reaches"
        try:
            state = self._seeded(0).new_initial_state()
        except refusal:  # it has no such parameter
            raise ValueError(f"{name} draws its chance {unreached}") from None
        while state.is_chance_node():
            state.apply_action(state.legal_actions()[0])
        state.apply_action(state.legal_actions()[0])
        if state.is_chance_node():  # every look ahead would change the chance to come
            raise ValueError(f"{name} draws chance between moves {unreached}")

    def _num_starts(self) -> int:
        """Returns the number of chance outcomes before the first move, counted along one of them."""
        state, number = self._game.new_initial_state(), 1
        while state.is_chance_node():
            outcomes = state.chance_outcomes()
            number *= len(outcomes)
            state.apply_action(outcomes[0][0])
        return number


def _drawn(state: Any, rng: np.random.Generator) -> int:
    """Draws one outcome of a chance node."""
    actions, chances = zip(*state.chance_outcomes(), strict=True)
    return int(actions[int(rng.choice(len(actions), p=np.asarray(chances) / sum(chances)))])
