"""TextGameEnv: illegal moves under each rule, moves at once, hidden cards, seats that end early, caps and prompts."""

from __future__ import annotations

import subprocess
import sys
from itertools import product
from typing import Any

import gymnasium as gym
import pytest

from ragen_envs.games import TextGameEnv, make_text_game
from ragen_envs.games.env import GameStep
from ragen_envs.games.kuhn_poker import DEALS, KuhnPoker
from ragen_envs.games.leduc_holdem import LeducHoldem
from ragen_envs.games.limits import GameLimits
from ragen_envs.reply import format_reply
from tests.envs.games.installed import installed_games
from tests.envs.games.sweepstake import Sweepstake

A, B, C = "player_0", "player_1", "player_2"


def say(action: str) -> str:
    return format_reply([action], "thought")


def made(name: str, game: dict[str, Any] | None = None, **limits: Any) -> TextGameEnv:
    env = make_text_game(name, game, limits)
    env.reset(seed=0)
    return env


def play(env: TextGameEnv, line: str) -> GameStep:
    for action in line.split():
        step = env.step({env.to_act[0]: say(action)})
    return step


def test_a_won_game_pays_and_tells_both_seats() -> None:
    env = made("tic_tac_toe")
    step = play(env, "A1 B1 A2 B2 A3")
    assert step.rewards == {A: 1.0, B: -1.0}
    assert step.terminated == {A: True, B: True} and step.truncated == {A: False, B: False}
    assert [step.infos[seat]["outcome"] for seat in (A, B)] == ["win", "loss"]
    assert [step.infos[seat]["stop_reason"] for seat in (A, B)] == ["goal", "failed"]
    assert step.observations[A].startswith("Reward 1\n") and step.observations[A].endswith("The game is over: win")
    assert step.observations[B].startswith("Reward -1\n") and step.observations[B].endswith("The game is over: loss")
    assert env.agents == [] and env.to_act == ()
    with pytest.raises(gym.error.ResetNeeded):
        env.step({A: say("C3")})


def test_a_draw_is_told_to_both_seats() -> None:
    step = play(made("tic_tac_toe"), "A1 B2 C3 A2 C2 C1 A3 B3 B1")
    assert step.rewards == {A: 0.0, B: 0.0}
    assert [step.infos[seat]["outcome"] for seat in (A, B)] == ["draw", "draw"]
    assert not step.infos[A]["success"] and step.observations[B].endswith("The game is over: draw")


ILLEGAL = ["A1 again", say("A1"), say("B2 || B3"), say(""), "<answer>B2</answer>", say("Z9")]


@pytest.mark.parametrize("reply", ILLEGAL)
def test_penalty_makes_a_random_move_for_the_seat(reply: str) -> None:
    env = made("tic_tac_toe", illegal_reward=-0.25)
    play(env, "A1")
    step = env.step({B: reply})
    (played,) = step.infos[B]["actions"]
    assert played != "A1" and not step.infos[B]["valid"]
    assert step.rewards == {A: 0.0, B: -0.25}
    assert env.to_act == (A,) and f"O played {played}" in step.observations[A]
    assert f"Reward -0.25, no legal action, {played} was played for you" in play(env, _free(env)).observations[B]


def _free(env: TextGameEnv) -> str:
    return env.game.legal_actions(env.to_act[0])[0]


def test_penalty_moves_depend_on_the_outcome_seed_only() -> None:
    played = []
    for outcome_seed in (1, 1, 2, 3, 4, 5):
        env = make_text_game("tic_tac_toe")
        env.reset(seed=0, options={"outcome_seed": outcome_seed})
        played.append(env.step({A: ""}).infos[A]["actions"][0])
    assert played[0] == played[1] and len(set(played)) > 1


@pytest.mark.parametrize("reply", ILLEGAL)
def test_retry_asks_again_then_forfeits(reply: str) -> None:
    env = made("tic_tac_toe", illegal_move="retry", max_retries=2)
    play(env, "A1")
    for left in (1, 0):
        state = env.game.observe(B)
        step = env.step({B: reply})
        assert env.to_act == (B,) and env.game.observe(B) == state
        assert step.rewards == {A: 0.0, B: -0.1} and step.infos[B]["actions"] == []
        assert f"no legal action, try again ({left} left)" in step.observations[B] and A not in step.observations
    step = env.step({B: reply})
    assert step.rewards == {A: 1.0, B: pytest.approx(-1.1)}
    assert (step.infos[A]["stop_reason"], step.infos[B]["stop_reason"]) == ("goal", "forfeit")


def test_retry_counts_illegal_moves_in_a_row() -> None:
    env = made("tic_tac_toe", illegal_move="retry", max_retries=1)
    for action in ("A1", "A2", "A3", "B1"):
        env.step({env.to_act[0]: "junk"})
        play(env, action)
    assert env.agents == [A, B]


@pytest.mark.parametrize("reply", ILLEGAL)
@pytest.mark.parametrize("name", ["tic_tac_toe", "connect_four", "kuhn_poker"])
def test_forfeit_loses_at_once(name: str, reply: str) -> None:
    env = made(name, illegal_move="forfeit")
    env.step({A: say(_free(env))})
    step = env.step({B: reply})
    worth = 2.0 if name == "kuhn_poker" else 1.0
    assert step.rewards == {A: worth, B: -worth}
    assert (step.infos[A]["outcome"], step.infos[B]["outcome"]) == ("win", "loss")
    assert step.infos[B]["stop_reason"] == "forfeit" and env.agents == []


def test_forfeit_where_both_move_at_once() -> None:
    env = made("prisoners_dilemma", illegal_move="forfeit")
    env.step({A: say("Cooperate"), B: say("Cooperate")})
    step = env.step({A: say("Cooperate"), B: "junk"})
    assert step.rewards == {A: 20.0, B: 0.0}  # four rounds left: temptation for one, the sucker's pay for the other
    assert step.infos[A]["actions"] == [] and step.infos[A]["outcome"] == "win" and step.infos[B]["outcome"] == "loss"
    env = made("rock_paper_scissors", illegal_move="forfeit")
    assert env.step({A: "junk", B: "junk"}).rewards == {A: -5.0, B: -5.0}
    assert env.info(A)["outcome"] == env.info(B)["outcome"] == "loss"


@pytest.mark.parametrize("name", ["rock_paper_scissors", "prisoners_dilemma"])
def test_a_seat_never_sees_the_others_move_of_the_same_round(name: str) -> None:
    told = []
    for action in make_text_game(name).game.actions:  # type: ignore[attr-defined]
        env = made(name)
        before = env.observe(B)
        step = env.step({A: say(action)})
        assert step.observations == {B: before} and step.rewards == {A: 0.0, B: 0.0} and env.to_act == (B,)
        assert "Wait for the others" in env.observe(A)
        assert env.observe(B) == before
        told.append((env.observe(B), str(env.info(B)), str(step.infos[B])))
        step = env.step({B: say(action)})
        assert f"Round 1: you {action}, other {action}" in step.observations[A]
    assert len(set(told)) == 1


def test_only_the_seat_that_must_try_again_is_asked_again() -> None:
    env = made("rock_paper_scissors", illegal_move="retry")
    step = env.step({A: say("Rock"), B: "junk"})
    assert (
        env.to_act == (B,) and set(step.observations) == {B} and "Rock," not in step.observations[B].split("Legal")[0]
    )
    step = env.step({B: say("Paper")})
    assert step.rewards == {A: -1.0, B: 1.0} and set(step.observations) == {A, B}


def test_kuhn_prompts_never_hold_the_others_card() -> None:
    lines = [("Check", "Check"), ("Bet", "Fold"), ("Bet", "Call"), ("Check", "Bet", "Fold"), ("Check", "Bet", "Call")]
    told: dict[tuple[Any, ...], set[str]] = {}
    for deal, line in product(DEALS, lines):
        game = KuhnPoker()
        env = TextGameEnv(game)
        env.reset(seed=0)
        game.start(deal)
        for number, action in enumerate((*line, None)):
            for index, seat in enumerate((A, B)):
                text = f"{env.observe(seat)}\n{env.info(seat)}"
                assert deal[1 - index] not in text
                if action is not None:
                    told.setdefault((seat, deal[index], line[:number]), set()).add(text)
            if action is not None:
                env.step({env.to_act[0]: say(action)})
    # Whatever the other holds, a seat with the same card and betting is told the same, to the letter.
    assert all(len(texts) == 1 for texts in told.values()) and len(told) == 2 * 3 * 4


def test_leduc_prompts_depend_on_nothing_hidden() -> None:
    told: dict[tuple[Any, ...], set[str]] = {}
    for start in LeducHoldem().starts():
        env = TextGameEnv(start)
        deal, public = start.deal, start.public
        env.reset(seed=0)
        start.start((deal[0], deal[1]), public)
        for number, action in enumerate(["Check", "Bet", "Call", "Bet", "Raise"]):
            for index, seat in enumerate((A, B)):
                known = (seat, number, deal[index], public if number > 2 else "")
                told.setdefault(known, set()).add(f"{env.observe(seat)}\n{env.info(seat)}")
            env.step({env.to_act[0]: say(action)})
    assert all(len(texts) == 1 for texts in told.values()) and len(told) == 2 * (3 * 3 + 2 * 9)


def test_a_seat_that_ends_early_leaves_and_the_others_go_on() -> None:
    env = TextGameEnv(Sweepstake())
    env.reset(seed=0)
    step = env.step({A: say("2"), B: say("1"), C: say("3")})
    assert step.rewards == {A: 0.0, B: -1.0, C: 0.0}
    assert step.terminated == {A: False, B: True, C: False} and env.agents == [A, C] and env.to_act == (A, C)
    assert step.infos[B]["outcome"] == "loss" and step.observations[B].endswith("The game is over: loss")
    with pytest.raises(ValueError, match="to act: player_0, player_2; got replies of player_1"):
        env.step({B: say("1")})
    step = env.step({A: say("3"), C: say("1")})
    assert set(step.rewards) == {A, C} and step.infos[A]["outcome"] == "win" and env.agents == []


def test_a_forfeit_among_three_lets_the_others_move() -> None:
    env = TextGameEnv(Sweepstake(), GameLimits(illegal_move="forfeit"))
    env.reset(seed=0)
    env.step({B: "junk"})
    assert env.agents == [A, B, C] and env.to_act == (A, C)  # the forfeit counts once all have replied
    step = env.step({A: say("1"), C: say("2")})
    assert step.rewards == {A: -1.0, B: -1.0, C: 0.0} and env.agents == []
    assert [env.info(seat)["stop_reason"] for seat in (A, B, C)] == ["failed", "forfeit", "goal"]


def test_the_cap_on_turns_cuts_the_game_off_for_all() -> None:
    env = made("tic_tac_toe", max_turns=2)
    step = play(env, "A1 A2 B1 B2")
    assert step.truncated == {A: True, B: True} and step.terminated == {A: False, B: False}
    assert step.infos[A]["stop_reason"] == step.infos[B]["stop_reason"] == "max_turns"
    assert step.observations[A].endswith("The game is cut off") and env.to_act == ()


def test_prompts_tell_rules_format_and_the_illegal_move_rule() -> None:
    assert "Reply with <think>your reasoning</think><answer>action</answer>" in made("kuhn_poker").system_prompt
    assert "costs 0.1, and a random one is played for you" in made("kuhn_poker").system_prompt
    assert "asked again, up to 2 time(s)" in made("kuhn_poker", illegal_move="retry").system_prompt
    assert "no legal action loses" in made("kuhn_poker", illegal_move="forfeit").system_prompt
    assert "Reply with <answer>action</answer>" in made("kuhn_poker", think=False).system_prompt
    assert made("kuhn_poker", prompt_style="brief").system_prompt == "Kuhn poker"
    assert "Legal actions: Check, Bet" in made("kuhn_poker").observe(A)
    assert "Legal actions" not in made("kuhn_poker", list_actions=False).observe(A)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"illegal_move": "skip"}, "illegal_move must be penalty or retry or forfeit, got 'skip'"),
        ({"illegal_reward": 0.1}, "illegal_reward must be ≤ 0"),
        ({"illegal_reward": float("nan")}, "illegal_reward must be ≤ 0"),
        ({"max_retries": -1}, "max_retries must be ≥ 0"),
        ({"max_turns": 0}, "max_turns must be ≥ 1 or None"),
        ({"prompt_style": "long"}, "prompt_style must be full or brief"),
        ({"max_action": 3}, "unknown limit 'max_action'; allowed: illegal_move"),
    ],
)
def test_bad_limits_are_refused(limits: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_text_game("tic_tac_toe", limits=limits)


def test_bad_reset_options_are_refused() -> None:
    env = make_text_game("tic_tac_toe")
    with pytest.raises(ValueError, match="unknown split 'dev'"):
        env.reset(seed=0, options={"split": "dev"})
    with pytest.raises(ValueError, match="unknown reset option 'seat'"):
        env.reset(seed=0, options={"seat": 1})
    for options in (None, {"outcome_seed": 1}):
        with pytest.raises(ValueError, match="instance seed must be ≥ 0, got -1"):
            env.reset(seed=-1, options=options)


def test_games_without_a_seed_follow_from_the_last_seed() -> None:
    deals = []
    for _ in range(2):
        env = make_text_game("kuhn_poker")
        env.reset(seed=3)
        for _ in range(8):
            env.reset()
            deals.append(env.game.instance_key)
    assert deals[:8] == deals[8:] and len(set(deals)) > 1


def test_games_are_the_same_in_every_process() -> None:
    code = (
        "from ragen_envs.games import make_text_game\n"
        f"for name in {installed_games()}:\n"
        "    env = make_text_game(name, {'opening_moves': 2} if name in ('tic_tac_toe', 'connect_four') else None)\n"
        "    for seed in range(5):\n"
        "        env.reset(seed=seed, options={'outcome_seed': seed + 1})\n"
        "        while env.agents: step = env.step(dict.fromkeys(env.to_act, 'junk'))\n"
        "        print(name, step.rewards, env.render())\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": hash_seed}
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(outputs) == 1 and len(next(iter(outputs))) > 1_000
