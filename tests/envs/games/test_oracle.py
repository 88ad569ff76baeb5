"""Our rules against OpenSpiel's and PettingZoo's, move by move, where those are installed (the extra `games`)."""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from itertools import permutations
from typing import Any

import numpy as np
import pytest

from ragen_envs.games import TextGame, make_game
from ragen_envs.games.baselines import BEST, game_baselines
from ragen_envs.games.exact import best_reply, expected
from ragen_envs.games.kuhn_poker import CARDS, KuhnPoker
from ragen_envs.games.leduc_holdem import LeducHoldem
from ragen_envs.games.players import kuhn_equilibrium, uniform
from ragen_envs.splits import Split

A, B = "player_0", "player_1"


def oracle(*modules: str) -> list[Any]:
    """The modules; skips with a warning that stays in the summary if one is missing."""
    for name in modules:
        needed = "pygame" if name.startswith("pettingzoo.classic") else name.split(".")[0]
        if importlib.util.find_spec(needed) is None:
            warnings.warn(f"NOT TESTED against {name}: {needed} is not installed (the extra 'games')", stacklevel=2)
            pytest.skip(f"NOT TESTED: {needed} is not installed (the extra 'games')")
    return [importlib.import_module(name) for name in modules]


def started(name: str, **settings: Any) -> TextGame:
    game = make_game(name, **settings)
    game.reset(0, Split.TRAIN, 0)
    return game


@pytest.mark.parametrize(("name", "games"), [("tic_tac_toe", 300), ("connect_four", 150)])
def test_boards_agree_with_openspiel(name: str, games: int) -> None:
    (pyspiel,) = oracle("pyspiel")
    names = started(name).legal_actions(A)
    rng = np.random.default_rng(0)
    ends = set()
    for _ in range(games):
        game, state, returns = started(name), pyspiel.load_game(name).new_initial_state(), {A: 0.0, B: 0.0}
        while game.to_move:
            (seat,) = game.to_move
            assert not state.is_terminal() and state.current_player() == game.seats.index(seat)
            assert [names.index(action) for action in game.legal_actions(seat)] == state.legal_actions()
            choice = int(rng.choice(state.legal_actions()))
            for each, reward in game.play({seat: names[choice]}).items():
                returns[each] += reward
            state.apply_action(choice)
        assert state.is_terminal() and list(returns.values()) == state.returns()
        ends.add(returns[A])
    assert {1.0, -1.0} <= ends


def betting(game: KuhnPoker, state: Any, returns: tuple[float, float]) -> int:
    """Walks all lines of betting of one deal → how many ended alike."""
    if not game.to_move:
        assert state.is_terminal() and list(returns) == state.returns()
        return 1
    (seat,) = game.to_move
    assert state.current_player() == game.seats.index(seat) and state.legal_actions() == [0, 1]
    ended = 0
    for index, action in enumerate(game.legal_actions(seat)):
        child, rewards = game.after({seat: action})
        ended += betting(child, state.child(index), (returns[0] + rewards[A], returns[1] + rewards[B]))
    return ended


def test_all_of_kuhn_poker_agrees_with_openspiel() -> None:
    (pyspiel,) = oracle("pyspiel")
    for deal in permutations(range(3), 2):
        game, state = KuhnPoker(), pyspiel.load_game("kuhn_poker").new_initial_state()
        game.start(tuple(CARDS[card] for card in deal))
        for card in deal:
            state.apply_action(card)
        assert betting(game, state, (0.0, 0.0)) == 5


LEDUC_ACTIONS = {"Fold": 0, "Check": 1, "Call": 1, "Bet": 2, "Raise": 2}


def leduc_lines(game: LeducHoldem, state: Any, public: int, returns: tuple[float, float]) -> int:
    """Walks all lines of betting of one deal → how many ended alike."""
    if state.is_chance_node():
        state.apply_action(public)
    if not game.to_move:
        assert state.is_terminal() and list(returns) == state.returns()
        return 1
    (seat,) = game.to_move
    legal = game.legal_actions(seat)
    assert state.current_player() == game.seats.index(seat)
    assert [LEDUC_ACTIONS[action] for action in legal] == state.legal_actions()
    ended = 0
    for action in legal:
        child, rewards = game.after({seat: action})
        after = (returns[0] + rewards[A], returns[1] + rewards[B])
        ended += leduc_lines(child, state.child(LEDUC_ACTIONS[action]), public, after)
    return ended


def test_all_of_leduc_holdem_agrees_with_openspiel() -> None:
    (pyspiel,) = oracle("pyspiel")
    names = [card for card in CARDS for _ in range(2)]  # theirs orders the deck by rank
    for first, second, public in permutations(range(6), 3):
        game, state = LeducHoldem(), pyspiel.load_game("leduc_poker").new_initial_state()
        game.start((names[first], names[second]), names[public])
        for card in (first, second):
            state.apply_action(card)
        assert leduc_lines(game, state, public, (0.0, 0.0)) == 4 + 5 * 9


def test_leduc_values_agree_with_openspiel() -> None:
    pyspiel, policies, score, best = oracle(
        "pyspiel",
        "open_spiel.python.policy",
        "open_spiel.python.algorithms.expected_game_score",
        "open_spiel.python.algorithms.best_response",
    )
    leduc = pyspiel.load_game("leduc_poker")
    random, state = policies.UniformRandomPolicy(leduc), leduc.new_initial_state()
    ours = {(match.seat, match.player): match.returned for match in game_baselines("leduc_holdem")}
    for index, seat in enumerate((A, B)):
        assert score.policy_value(state, [random, random])[index] == pytest.approx(ours[seat, "uniform"], abs=1e-4)
        response = best.BestResponsePolicy(leduc, index, random)
        values = score.policy_value(state, [response, random] if index == 0 else [random, response])
        assert values[index] == pytest.approx(ours[seat, BEST], abs=1e-4)


def test_kuhn_values_agree_with_openspiel() -> None:
    pyspiel, policies, score, best = oracle(
        "pyspiel",
        "open_spiel.python.policy",
        "open_spiel.python.algorithms.expected_game_score",
        "open_spiel.python.algorithms.best_response",
    )
    kuhn = pyspiel.load_game("kuhn_poker")
    random = policies.UniformRandomPolicy(kuhn)
    state, deals, players = kuhn.new_initial_state(), KuhnPoker().starts(), dict.fromkeys((A, B), uniform)
    assert score.policy_value(state, [random, random]) == pytest.approx(
        [float(expected(deals, seat, players).returned) for seat in (A, B)]
    )
    for index, seat in enumerate((A, B)):
        response = best.BestResponsePolicy(kuhn, index, random)
        values = score.policy_value(state, [response, random] if index == 0 else [random, response])
        assert values[index] == pytest.approx(float(best_reply(deals, seat, players).returned))


def test_our_kuhn_equilibrium_is_not_exploitable_by_openspiels_measure() -> None:
    pyspiel, policies, exploitability = oracle(
        "pyspiel", "open_spiel.python.policy", "open_spiel.python.algorithms.exploitability"
    )
    kuhn = pyspiel.load_game("kuhn_poker")
    table = policies.TabularPolicy(kuhn)
    for deal in permutations(range(3), 2):
        for line in ((), ("Check",), ("Bet",), ("Check", "Bet")):
            game, state = KuhnPoker(), kuhn.new_initial_state()
            game.start(tuple(CARDS[card] for card in deal))
            for card in deal:
                state.apply_action(card)
            for action in line:
                state.apply_action(int(action == "Bet"))
                game.play({game.to_move[0]: action})
            chances = kuhn_equilibrium(game, game.to_move[0])
            table.policy_for_key(state.information_state_string())[:] = [float(chance) for chance in chances.values()]
    assert exploitability.exploitability(kuhn, table) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("name", "theirs"), [("rock_paper_scissors", "matrix_rps"), ("prisoners_dilemma", "matrix_pd")]
)
def test_tables_agree_with_openspiel(name: str, theirs: str) -> None:
    (pyspiel,) = oracle("pyspiel")
    actions = started(name).legal_actions(A)
    for i, mine in enumerate(actions):
        for j, others in enumerate(actions):
            state = pyspiel.load_game(theirs).new_initial_state()
            state.apply_actions([i, j])
            ours = list(started(name, rounds=1).play({A: mine, B: others}).values())
            if name == "prisoners_dilemma":  # theirs pays other amounts of the same order
                assert np.sign(np.diff(ours)) == np.sign(np.diff(state.returns()))
            else:
                assert ours == state.returns()


@pytest.mark.parametrize(("name", "module"), [("tic_tac_toe", "tictactoe_v3"), ("connect_four", "connect_four_v3")])
def test_boards_agree_with_pettingzoo(name: str, module: str) -> None:
    (theirs,) = oracle(f"pettingzoo.classic.{module}")
    names = started(name).legal_actions(A)
    rng = np.random.default_rng(1)
    env = theirs.raw_env()
    for _ in range(40):
        game = started(name)
        env.reset()
        while game.to_move:
            (seat,) = game.to_move
            choice = int(rng.integers(len(game.legal_actions(seat))))
            action = game.legal_actions(seat)[choice]
            index = names.index(action)
            if name == "tic_tac_toe":  # theirs counts down the columns
                index = index % 3 * 3 + index // 3
            mask = env.observe(env.agent_selection)["action_mask"]
            assert env.agents.index(env.agent_selection) == game.seats.index(seat)
            assert int(mask.sum()) == len(game.legal_actions(seat)) and mask[index]
            rewards = game.play({seat: action})
            env.step(index)
            assert list(rewards.values()) == list(env.rewards.values())
        assert all(env.terminations.values())


def test_rock_paper_scissors_agrees_with_pettingzoo() -> None:
    (theirs,) = oracle("pettingzoo.classic.rps_v2")
    env, game, rng = (
        theirs.parallel_env(max_cycles=30),
        started("rock_paper_scissors", rounds=30),
        np.random.default_rng(2),
    )
    names = game.legal_actions(A)
    env.reset()
    for _ in range(30):
        first, second = (int(choice) for choice in rng.integers(3, size=2))
        rewards = game.play({A: names[first], B: names[second]})
        _, expected_rewards, *_ = env.step({A: first, B: second})
        assert list(rewards.values()) == list(expected_rewards.values())
    assert game.to_move == () and env.agents == []
