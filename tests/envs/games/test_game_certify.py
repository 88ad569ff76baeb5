"""check_text_game passes the shipped games and names the broken clause of broken ones."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragen_envs.contract import CertificationError
from ragen_envs.games import Outcome, TextGame, TextGameEnv, make_text_game
from ragen_envs.games.certify import CLAUSES, check_text_game, main
from ragen_envs.games.kuhn_poker import KuhnPoker
from ragen_envs.games.rock_paper_scissors import RockPaperScissors
from ragen_envs.games.tic_tac_toe import TicTacToe
from ragen_envs.splits import Split
from tests.envs.games.installed import SHORT, installed_games
from tests.envs.games.sweepstake import Sweepstake

SETTINGS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    *((name, SHORT.get(name, {}), {}) for name in installed_games()),
    ("tic_tac_toe", {"opening_moves": 2}, {"illegal_move": "retry", "think": False}),
    ("connect_four", {"opening_moves": 4}, {"max_turns": 4}),
    ("rock_paper_scissors", {"rounds": 1}, {"illegal_move": "retry", "max_retries": 0}),
    ("kuhn_poker", {}, {"illegal_move": "forfeit", "prompt_style": "brief"}),
    ("prisoners_dilemma", {"rounds": 2}, {"list_actions": False, "max_turns": 1}),
]


@pytest.mark.parametrize(("name", "game", "limits"), SETTINGS, ids=str)
def test_shipped_games_keep_the_contract(name: str, game: dict[str, Any], limits: dict[str, Any]) -> None:
    assert check_text_game(lambda: make_text_game(name, game, limits), instances=8) == list(CLAUSES)


def test_a_users_game_for_three_keeps_the_contract() -> None:
    assert check_text_game(lambda: TextGameEnv(Sweepstake()), instances=8) == list(CLAUSES)


class ShowsTheOthersCard(KuhnPoker):
    def observe(self, seat: str) -> str:
        return f"{super().observe(seat)}\nCards: {', '.join(self.deal)}"


class UnseededDeal(KuhnPoker):
    def reset(self, seed: int, split: Split, outcome_seed: int) -> None:
        super().reset(random.randrange(10**6), split, outcome_seed)


class DealIsChance(KuhnPoker):
    def reset(self, seed: int, split: Split, outcome_seed: int) -> None:
        super().reset(outcome_seed, split, outcome_seed)


class SplitChangesTheDeal(KuhnPoker):
    def reset(self, seed: int, split: Split, outcome_seed: int) -> None:
        super().reset(seed + 100 * list(Split).index(split), split, outcome_seed)


class SplitsOverlap(TicTacToe):
    def reset(self, seed: int, split: Split, outcome_seed: int) -> None:
        super().reset(seed, Split.TRAIN, outcome_seed)


class CannotParse(TicTacToe):
    def parse_action(self, seat: str, text: str) -> str | None:
        return {name: name for name in self.legal_actions(seat)}[text.strip().upper()]


class TakesAnything(TicTacToe):
    def parse_action(self, seat: str, text: str) -> str | None:
        return super().parse_action(seat, text) or self.legal_actions(seat)[0]


class CaseMatters(TicTacToe):
    def parse_action(self, seat: str, text: str) -> str | None:
        return text.strip() if text.strip() in self.legal_actions(seat) else None


class UnnamedActions(TicTacToe):
    def rules(self) -> str:
        return "Put three in a row."


class FreeForfeit(KuhnPoker):
    def _forfeit(self, losers: tuple[str, ...]) -> dict[str, float]:
        return dict.fromkeys(self.seats, 0.0) | dict.fromkeys(super()._forfeit(losers), 0.0)


class PaysTwice(TicTacToe):
    def _play(self, moves: Mapping[str, str]) -> dict[str, float]:
        return {seat: max(2 * reward, -1.0) for seat, reward in super()._play(moves).items()}


class NotANumber(TicTacToe):
    def play(self, moves: Mapping[str, str]) -> dict[str, float]:
        return dict.fromkeys(super().play(moves), np.nan)


class NoOutcome(TicTacToe):
    def outcome(self, seat: str) -> Outcome | None:
        outcome = super().outcome(seat)
        return None if outcome is Outcome.DRAW else outcome


class ForfeitWins(TicTacToe):
    def _forfeit(self, losers: tuple[str, ...]) -> dict[str, float]:
        self._winner = losers[0]
        return {losers[0]: -1.0, self.other(losers[0]): 1.0}


class MovesAreSeen(TextGameEnv):
    """The second of two seats reads what the first has just chosen."""

    def observe(self, seat: str) -> str:
        return f"{super().observe(seat)}\n{self._held}"


class FirstComeFirstServed(TextGameEnv):
    """A seat that replies first is paid for it."""

    def step(self, replies: Mapping[str, str]) -> Any:
        result = super().step(replies)
        if len(replies) == 1:
            result.rewards[next(iter(replies))] += 1.0
        return result


class NeverOver(TextGameEnv):
    """A finished game takes more replies."""

    def step(self, replies: Mapping[str, str]) -> Any:
        return super().step(replies) if self.agents else None


BROKEN: list[tuple[type[TextGame], type[TextGameEnv], str]] = [
    (ShowsTheOthersCard, TextGameEnv, "secrets are kept"),
    (UnseededDeal, TextGameEnv, "the same seeds and replies"),
    (DealIsChance, TextGameEnv, "a group shares its first prompts"),
    (SplitChangesTheDeal, TextGameEnv, "splits are disjoint, or there are none"),
    (CannotParse, TextGameEnv, "illegal moves cost|junk never raises"),
    (TakesAnything, TextGameEnv, "junk never raises"),
    (CaseMatters, TextGameEnv, "legal actions are told and understood"),
    (FreeForfeit, TextGameEnv, "a forfeit never pays"),
    (PaysTwice, TextGameEnv, "results agree"),
    (NotANumber, TextGameEnv, "steps are well-formed"),
    (NoOutcome, TextGameEnv, "steps are well-formed.*nobody is to act"),
    (ForfeitWins, TextGameEnv, "illegal moves cost.*has not lost"),
    (RockPaperScissors, MovesAreSeen, "moves made at once are unseen"),
    (RockPaperScissors, FirstComeFirstServed, "moves made at once are unseen.*is paid before"),
    (TicTacToe, NeverOver, "a game ends once"),
]


@pytest.mark.parametrize(("game", "env", "clause"), BROKEN, ids=lambda value: getattr(value, "__name__", None))
def test_broken_games_are_found(game: Callable[[], TextGame], env: type[TextGameEnv], clause: str) -> None:
    with pytest.raises(CertificationError, match=clause):
        check_text_game(lambda: env(game()))


def test_overlapping_splits_and_unnamed_actions_are_found() -> None:
    with pytest.raises(CertificationError, match=r"splits are disjoint.*share"):
        check_text_game(lambda: TextGameEnv(SplitsOverlap(opening_moves=2)))
    limits = make_text_game("tic_tac_toe", limits={"list_actions": False}).limits
    with pytest.raises(CertificationError, match="named neither in rules nor in prompt"):
        check_text_game(lambda: TextGameEnv(UnnamedActions(), limits))


def test_the_command_prints_the_clauses(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kuhn_poker"]) == 0
    assert capsys.readouterr().out.count("ok  ") == len(CLAUSES)
    assert main(["kuhn"]) == 2 and "unknown game 'kuhn'" in capsys.readouterr().out
    for wrong, says in (([], "NAME"), (["kuhn_poker", "--instances", "1"], "--instances must be ≥ 2, got 1")):
        with pytest.raises(SystemExit) as end:
            main(wrong)
        assert end.value.code == 2 and says in capsys.readouterr().err
    with pytest.raises(SystemExit) as end:
        main(["--help"])
    assert end.value.code == 0 and "kuhn_poker" in capsys.readouterr().out


class LosesCount(TicTacToe):
    """A rule of the user's that raises."""

    def observe(self, seat: str) -> str:
        raise KeyError("state")


def test_an_exception_is_told_with_type_line_and_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[3])
    line = inspect.getsourcelines(LosesCount.observe)[1] + 1
    with pytest.raises(CertificationError) as caught:
        check_text_game(lambda: TextGameEnv(LosesCount()))
    where = f"(tests/envs/games/test_game_certify.py:{line}, in observe)"
    first, hint = str(caught.value).splitlines()
    assert first.endswith(f"is broken: KeyError: 'state' {where}")
    assert hint == f"hint: {next(iter(CLAUSES.values())).hint}"
