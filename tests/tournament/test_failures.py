"""A game of a tournament that fails is recorded with its error and counts for nobody; the others go on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragen_envs.games import make_game
from rllib_ragen.faults.exit_codes import ExitCode
from rllib_ragen.models.chat_format import ChatFormat
from rllib_ragen.rollout.conversation import Sampler
from rllib_ragen.tournament import __main__ as command
from rllib_ragen.tournament.match_session import Fixture, Record
from rllib_ragen.tournament.matches import play_all
from rllib_ragen.tournament.standings import seat_results
from rllib_ragen.types import Sampling
from tests.rollout.conftest import chat, tokenizer
from tests.rollout.marked import Marked
from tests.rollout.spoilt_games import BAD_SEED, GARBLES, NEVER, SEEN_BY_ALL, Garble, SpoiltGame

__all__ = ["chat", "tokenizer"]
CHECK = "<think></think><answer>Check</answer>"


@pytest.fixture(autouse=True)
def release_the_hung() -> Iterator[None]:
    NEVER.clear()
    yield
    NEVER.set()


def played(chat: ChatFormat, garble: Garble, players: tuple[str, str], fails_on: str | None = None) -> list[Record]:
    fixtures = [Fixture(players, seed, seed, seed) for seed in range(6)]
    red = Sampler(Marked(chat, CHECK, fails_on), chat, Sampling(40, chat.stop_token_ids), 1024)
    return play_all(fixtures, {"red": red}, lambda: SpoiltGame(garble), env_timeout_s=2.0)


def assert_only_the_bad_one_failed(found: list[Record], healthy: list[Record], error: str) -> None:
    for seed, (record, usual) in enumerate(zip(found, healthy, strict=True)):
        if seed == BAD_SEED:
            assert error in record.error and not record.outcomes and not record.moves
        else:
            assert record == usual and not record.error and record.moves
    for one in seat_results(found, make_game("kuhn_poker")):
        assert one.games == 5


@pytest.mark.parametrize("name", GARBLES)
@pytest.mark.parametrize("players", [("red", "uniform"), ("kuhn_equilibrium", "red"), ("red", "red")])
def test_L1_a_game_that_fails_leaves_the_others_as_they_are(
    chat: ChatFormat, name: str, players: tuple[str, str]
) -> None:
    garble, error = GARBLES[name]
    healthy = played(chat, lambda step: step, players)
    assert_only_the_bad_one_failed(played(chat, garble, players), healthy, error)


@pytest.mark.parametrize("name", SEEN_BY_ALL)
def test_L1_a_game_between_scripts_fails_alone_too(chat: ChatFormat, name: str) -> None:
    garble, error = GARBLES[name]
    players = ("uniform", "kuhn_equilibrium")
    assert_only_the_bad_one_failed(played(chat, garble, players), played(chat, lambda step: step, players), error)


def test_L2_a_failed_request_ends_its_own_game(chat: ChatFormat) -> None:
    healthy = played(chat, lambda step: step, ("uniform", "red"))
    # Of the two seats, only one kind of deal tells this card.
    found = played(chat, lambda step: step, ("uniform", "red"), fails_on="Your card: Jack")
    failed = [record for record in found if record.error]
    assert 0 < len(failed) < len(found)
    assert all("agent 'player_1': this one fails" in record.error for record in failed)
    assert all(record.error or record == usual for record, usual in zip(found, healthy, strict=True))


def test_the_command_tells_failed_games_and_counts_them_for_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "found.json"
    words = ["--env", "kuhn_poker", "--plays", "4", "--out", str(out)]

    def spoil(bad: Any) -> None:
        real = SpoiltGame.reset

        def reset(self: SpoiltGame, **options: Any) -> Any:
            answer = real(self, **options)
            self._bad = bad()
            return answer

        monkeypatch.setattr(SpoiltGame, "reset", reset)
        monkeypatch.setattr(command.Plan, "make_env", lambda plan: SpoiltGame(GARBLES["reward of nan"][0]))

    turns = iter(range(100))
    spoil(lambda: next(turns) % 4 == 0)
    assert command.main(words) == 0
    shown, found = capsys.readouterr().out, json.loads(out.read_text())
    assert "2 of 8 games failed; the first: " in shown and "a reward of nan" in shown
    assert len(found["errors"]) == 2 and sum(one["games"] for one in found["results"]) == 2 * 6
    monkeypatch.undo()
    spoil(lambda: True)
    assert command.main([*words, "--force"]) == ExitCode.ENVIRONMENT
    error = capsys.readouterr().err
    assert error.startswith("rllib_ragen: 8 of 8 games failed; the first: ") and error.count("\n") == 1
