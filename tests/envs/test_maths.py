"""Maths: answers compared safely, the retry reward, generators by name, loaders."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
import reasoning_gym
from hypothesis import given
from hypothesis import strategies as st

from ragen_envs import make_text_env
from ragen_envs.maths.answers import number_of, same_answer
from ragen_envs.maths.env import MathsEnv
from ragen_envs.maths.problems import _BY_TEXT, _EVALUATING, _UNANSWERED, problem_of
from ragen_envs.reply import format_reply
from ragen_envs.splits import Split


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("42", "42.0", True),
        ("1,250", "1250", True),
        ("$18$", "18", True),
        ("\\boxed{18}", "18", True),
        ("-3.5", "−7/2", True),
        ("\\frac{3}{4}", "0.75", True),
        ("\\dfrac34", "3/4", True),
        ("x + 1", "x+1", True),
        ("\\left( 1, 2 \\right)", "(1,2)", True),
        ("Yes", "yes", True),
        ("3 + 4", "7", False),  # the problem is no answer to itself
        ("2**3", "8", False),
        ("1e3", "1000", False),
        ("42 or 43", "42", False),
        ("1/0", "1/0", True),  # the same text
        ("1/0", "0", False),
        ("", "", False),
        ("12,50", "1250", False),
        ("12 3", "1 23", False),  # rows of digits
        ("1  2\n3", "1 2 3", True),
    ],
)
def test_numbers_are_the_same_by_value_and_the_rest_by_text(one: str, other: str, same: bool) -> None:
    assert same_answer(one, other) is same
    assert same_answer(other, one) is same


@given(st.text(max_size=200), st.text(max_size=50))
def test_comparing_never_raises(one: str, other: str) -> None:
    same_answer(one, other)
    assert same_answer(one, one) == bool("".join(one.split())) or "\\" in one or "$" in one


@pytest.mark.parametrize("text", ["9" * 10**6, "1," * 500_000, "\\boxed{" * 100_000, "-" * 10**6, "\\frac{" * 10**5])
def test_comparing_is_linear(text: str) -> None:
    start = time.process_time()
    assert not same_answer(text, "42")
    assert number_of(text) is None
    assert time.process_time() - start < 1.0


def test_each_wrong_answer_halves_the_reward() -> None:
    for wrong in range(4):
        env = MathsEnv()
        env.reset(seed=3)
        for attempt in range(wrong):
            text, reward, terminated, *_ = env.step("no number")
            assert (reward, terminated) == (0.0, False)
            assert f"Wrong answers so far: {attempt + 1}" in text
        assert env.step(env.problem.answer)[1:3] == (0.5**wrong, True)
        assert env.success


def test_an_episode_of_replies_ends_with_the_right_one_and_never_tells_what_was_said() -> None:
    env = make_text_env("maths")
    env.reset(seed=0)
    text, reward, terminated, *_ = env.step(format_reply(["answer[not a number]"], "hm"))
    assert reward == 0 and not terminated and "not a number" not in text
    answer = (env.task.solve() or [""])[0]
    assert env.step(format_reply([answer], "now"))[1:3] == (0.5, True)


@pytest.mark.parametrize(
    "generator", ["basic_arithmetic", "gcd", "fraction_simplification", "leg_counting", "number_sorting"]
)
def test_generators_are_taken_by_name_and_their_answers_are_right(generator: str) -> None:
    env = MathsEnv(generator)
    texts = set()
    for split in Split:
        for seed in range(4):
            text, _ = env.reset(seed=seed, options={"split": split.value})
            texts.add(text)
            assert env.step(env.parse_action((env.solve() or [""])[0]) or "")[1:3] == (1.0, True)
    assert len(texts) == 12


def test_settings_of_a_generator_arrive() -> None:
    env = MathsEnv("chain_sum", {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1})
    assert len(re.findall(r"\d+", env.reset(seed=0)[0])) == 2


@pytest.mark.parametrize(
    ("task", "sentence"),
    [
        ({"generator": "chain_sun"}, "unknown generator 'chain_sun'; allowed: .*; did you mean 'chain_sum'"),
        ({"generator": "countdown"}, "countdown is not offered: it checks an answer by running it as Python code"),
        ({"generator": "rush_hour"}, "rush_hour is not offered: its problems come without an answer"),
        ({"settings": {"max_term": 3}}, "generator chain_sum: .*max_term"),
        ({"settings": {"min_terms": 9, "max_terms": 3}}, "generator chain_sum: "),
        ({"settings": {"seed": 3}}, "must not hold seed"),
        ({"data": "none.jsonl"}, "there is no file none.jsonl"),
        ({"data": "none.jsonl", "settings": {"x": 1}}, "settings belong to a generator"),
    ],
)
def test_wrong_settings_get_one_sentence(task: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as told:
        make_text_env("maths", task)
    assert "\n" not in str(told.value)


# They evaluate expressions that they made themselves, or (propositional_logic, not offered) have a parser of that name.
_OWN_EXPRESSIONS = {"basic_arithmetic", "bitwise_arithmetic", "number_sorting", "propositional_logic"}
_OWN_EXPRESSIONS |= {"generators_00_49", "generators_50_99"}


def test_no_offered_generator_runs_answers_as_code() -> None:
    """Read from all of reasoning-gym's sources, so that a new version cannot bring one in unseen."""
    danger = re.compile(r"\bparse_expr\(|sympify|\bexec\(|\beval\(|\bpickle\.|subprocess|os\.system")
    sources = Path(reasoning_gym.__file__).parent.rglob("*.py")
    found = {source.stem for source in sources if danger.search(source.read_text(encoding="utf-8"))}
    assert found - _EVALUATING - _BY_TEXT - _OWN_EXPRESSIONS == set()


@pytest.mark.parametrize("generator", sorted(_BY_TEXT))
def test_an_answer_is_never_run(generator: str, tmp_path: Path) -> None:
    env = MathsEnv(generator)
    env.reset(seed=0)
    mark = tmp_path / "run"
    for code in (f"open({str(mark)!r}, 'w')", f"[open({str(mark)!r}, 'w')]", f"[[open({str(mark)!r}, 'w')]]"):
        assert env.step(code)[1] == 0.0
    assert not mark.exists()
    assert env.step(env.problem.answer)[1] == 0.125


@pytest.mark.slow
def test_every_generator_is_offered_or_refused_by_name() -> None:
    offered = 0
    for generator in sorted(reasoning_gym.factory.DATASETS):
        if generator in _EVALUATING | _UNANSWERED:
            with pytest.raises(ValueError, match=f"generator {generator} is not offered"):
                MathsEnv(generator)
            continue
        env = MathsEnv(generator)
        env.reset(seed=0, options={"split": "test"})
        assert env.step(env.parse_action((env.solve() or [""])[0]) or "")[1:3] == (1.0, True), generator
        offered += 1
    assert offered >= 93


@pytest.mark.parametrize(
    ("row", "text", "answer", "key"),
    [
        ({"question": "How many?", "answer": "3 + 4 = <<3+4=7>>7\n#### 7"}, "How many?", "7", "how many?"),
        (
            {"query": "What is X?", "response": "So. The answer is: \\frac{1}{2}.", "original_question": "Find  X"},
            "What is X?",
            "\\frac{1}{2}",
            "find x",
        ),
        ({"problem": "1+1", "answer": "2"}, "1+1", "2", "1+1"),
    ],
)
def test_rows_of_gsm8k_and_metamath_are_read(row: dict[str, str], text: str, answer: str, key: str) -> None:
    problem = problem_of(row)
    assert (problem.text, problem.answer, problem.key) == (text, answer, key)
    assert problem.is_right(answer) and not problem.is_right("8")


def test_rephrased_problems_are_in_the_same_split(tmp_path: Path) -> None:
    rows = [
        {"query": f"Form {form} of {number}", "response": f"The answer is: {number}", "original_question": f"Q{number}"}
        for number in range(60)
        for form in range(3)
    ]
    file = tmp_path / "metamath.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    env = MathsEnv(data=str(file))
    seen = {
        split: {env.reset(seed=seed, options={"split": split.value})[0].split(" of ")[1] for seed in range(200)}
        for split in Split
    }
    assert not (seen[Split.TRAIN] & seen[Split.TEST] or seen[Split.TRAIN] & seen[Split.VAL])


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('{"question": "x"}', "line 2: lacks answer or response or solution"),
        ('{"question": 3, "answer": "4"}', "line 2: question must be a text, got '3'"),
        ('{"question": "x", "answer": "#### "}', "line 2: has no answer of 1…2000 characters"),
        ("[1]", "line 2: must be a JSON object"),
        ("{", "line 2: no JSON"),
        ("[" * 100_000, "line 2: no JSON"),
    ],
)
def test_broken_rows_are_told_by_file_and_line(tmp_path: Path, line: str, sentence: str) -> None:
    file = tmp_path / "problems.jsonl"
    file.write_text(f'{{"question": "x", "answer": "1"}}\n{line}\n')
    with pytest.raises(ValueError, match=f"problems.jsonl, {sentence}") as told:
        MathsEnv(data=str(file))
    assert "\n" not in str(told.value)


def test_an_unreadable_file_is_told(tmp_path: Path) -> None:
    file = tmp_path / "problems.jsonl.gz"
    file.write_bytes(b"no gzip at all")
    with pytest.raises(ValueError, match="cannot be read"):
        MathsEnv(data=str(file))
    (tmp_path / "latin.jsonl").write_bytes(b'{"question": "\xff", "answer": "1"}')
    with pytest.raises(ValueError, match="cannot be read"):
        MathsEnv(data=str(tmp_path / "latin.jsonl"))
