"""Countdown: scoring, the tricks a model may try, the solver."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragen_envs.countdown.env import CountdownEnv
from ragen_envs.countdown.expression import parse_expression
from ragen_envs.countdown.puzzle import Puzzle, fill_template, solve_puzzle, template_choices


def _scored(numbers: tuple[int, ...], target: int, action: str) -> tuple[float, bool]:
    """Reward and success of `action` on that puzzle."""
    env = CountdownEnv()
    env.reset(seed=0)
    env._puzzle = Puzzle(numbers, target)
    _, reward, terminated, truncated, _ = env.step(action)
    assert terminated
    assert not truncated
    return reward, env.success


@pytest.mark.parametrize(
    ("action", "reward"),
    [
        ("(3 + 4) * 5", 1.0),
        ("5 × (4 + 3)", 1.0),
        ("(3+4)*(5)", 1.0),
        ("3 + 4 * 5", 0.1),  # right numbers, wrong value
        ("3 + 4 + 5", 0.1),
        ("3 / (4 - 4)", 0.0),  # a number too often, another missing
        ("35", 0.0),
        ("30 + 5", 0.0),
        ("7 * 5", 0.0),
        ("(3 + 4) * 5 + 5 - 5", 0.0),  # right value, numbers too often
        ("3 + 4", 0.0),
        ("34 + 5", 0.0),
    ],
)
def test_reward_is_1_right_01_right_numbers_0_otherwise(action: str, reward: float) -> None:
    assert _scored((3, 4, 5), 35, action) == (reward, reward == 1.0)


def test_a_number_that_is_there_twice_must_be_used_twice() -> None:
    assert _scored((4, 4, 2), 10, "4 + 4 + 2") == (1.0, True)
    assert _scored((4, 4, 2), 6, "4 + 2") == (0.0, False)


def test_values_are_exact_not_floating_point() -> None:
    assert _scored((1, 3, 3), 1, "1 / 3 * 3") == (1.0, True)
    assert _scored((8, 3, 3, 8), 24, "8 / (3 - 8 / 3)") == (1.0, True)


def test_division_by_zero_is_a_wrong_value_not_an_error() -> None:
    assert _scored((4, 4, 2), 5, "2 / (4 - 4)") == (0.1, False)
    assert parse_expression("1 / 0 + 1 / (2 - 2)") is not None


TRICKS = [
    "__import__('os')", "3 ** 4", "3 // 4", "3 % 4", "9 ** 9 ** 9", "3 if 4 else 5", "[3, 4]", "3 == 3", "(3, 4)",
    "f(3)", "3; 4", "x", "3.0 + 4", "1e9", "0x10", "1_000", "True", "-3 + 4", "+3", "~3", "3 < 4", "lambda: 3", "3 = 3",
    "3 4", "()", "", "(", "3 +", "٣ + 4", "３ + 4", "3 + 4 = 7", "\0", "3\0+4", "007", "(" * 150, "9" * 100_000,
    "+".join("1" * 120), "((((" * 5_000, "1" + "+1" * 50_000,
]  # fmt: skip


@pytest.mark.parametrize("text", TRICKS, ids=[repr(text[:20]) for text in TRICKS])
def test_what_is_no_arithmetic_is_no_action(text: str) -> None:
    env = CountdownEnv()
    env.reset(seed=0)
    assert env.parse_action(text) is None
    assert env.step(text)[1:4] == (0.0, True, False)
    assert not env.success


@given(st.text(max_size=250))
def test_parsing_never_raises(text: str) -> None:
    parse_expression(text)


@given(st.text(alphabet="0123456789+-*/() ", max_size=60))
@settings(max_examples=300)
def test_parsing_never_raises_on_near_expressions_and_counts_every_number(text: str) -> None:
    expression = parse_expression(text)
    if expression is not None:
        digits = "".join(c if c.isdigit() else " " for c in text).split()
        assert expression.numbers == tuple(sorted(map(int, digits)))


def test_huge_numbers_are_valued_exactly_and_fast() -> None:
    expression = parse_expression("*".join(["9" * 40] * 4))
    assert expression is not None
    assert expression.value == Fraction(int("9" * 40)) ** 4


@pytest.mark.parametrize("num_numbers", [2, 3, 4, 5])
def test_every_puzzle_is_solvable_and_the_solution_scores_one(num_numbers: int) -> None:
    env = CountdownEnv(num_numbers=num_numbers)
    for seed in range(20):
        env.reset(seed=seed)
        (solution,) = env.solve() or ["0"]
        assert env.puzzle.target not in env.puzzle.numbers
        assert len(env.puzzle.numbers) == num_numbers
        assert env.step(solution)[1] == 1.0


def test_the_solver_finds_what_needs_fractions_and_gives_up_where_there_is_nothing() -> None:
    assert solve_puzzle(Puzzle((3, 3, 8, 8), 24)) is not None
    assert solve_puzzle(Puzzle((1, 1), 7)) is None


def test_shuffled_numbers_are_the_same_instance() -> None:
    assert Puzzle((3, 9, 4), 7).key == Puzzle((9, 4, 3), 7).key != Puzzle((9, 4, 3), 8).key


def test_templates_name_every_way_to_join_and_no_more() -> None:
    assert template_choices(3) == (18, 6)
    values = {fill_template((2, 3, 7), (a, b)) for a in range(18) for b in range(6)}
    assert {Fraction(12), Fraction(42), Fraction(13), Fraction(35), Fraction(2, 21)} <= values
    assert fill_template((2, 3, 7), (0,)) is None


@pytest.mark.parametrize("wrong", [{"num_numbers": 1}, {"num_numbers": 6}, {"max_number": 1}, {"max_target": 0}])
def test_settings_out_of_range_are_refused_by_name(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        CountdownEnv(**wrong)  # type: ignore[arg-type]
