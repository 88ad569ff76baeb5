"""Problems with answers: from reasoning-gym's generators, or from a file in GSM8K's or MetaMathQA's form."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ragen_envs.extras import import_extra
from ragen_envs.json_lines import read_rows, text_of
from ragen_envs.maths.answers import same_answer
from ragen_envs.tree import Tree

MAX_ANSWER = 2_000
"""Most characters of an answer: chosen freely, room for a 30×30 grid of digits with spaces."""
_SIZE = 1_000_000
"""Problems of one generator, chosen freely: more than a run draws. Each seed names one."""
_SMALLER = {"acre": 2_000, "word_ladder": 2_000}
"""Smaller sizes for generators that make all their problems, or check how many there can be, before the first."""
_EVALUATING = {
    "codeio",
    "countdown",
    "intermediate_integration",
    "n_queens",
    "polynomial_multiplication",
    "puzzle24",
    "simple_integration",
}
"""Generators that check an answer by running it as Python (eval, exec, sympy's parse_expr): refused."""
_BY_TEXT = {"binary_matrix", "spiral_matrix", "string_insertion"}
"""Generators that would also run an answer as Python, but have one right text: only the texts are compared."""
_UNANSWERED = {"boxnet", "composite", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour"}
"""Generators without a known answer, and the one that mixes others: refused."""


@dataclass(frozen=True)
class Problem:
    """A problem, its answer, and the key that distinguishes it."""

    text: str
    answer: str
    key: str
    """Canonical text; a rephrased problem has that of the original."""
    is_right: Callable[[str], bool]
    """Whether an answer is right; never raises."""


Source = Callable[[np.random.Generator], Problem | None]
"""A function that draws a problem, or None if the draw was unfit."""


def generated(generator: str, settings: Mapping[str, object]) -> Source:
    """Returns a source of problems from a reasoning-gym generator with its own `settings`.

    Raises:
        ValueError: an unknown generator (names the nearest), one that cannot be used safely, wrong settings, or
            reasoning-gym is not installed.
    """
    return _generated(generator, json.dumps(settings, sort_keys=True, default=str))


@lru_cache(maxsize=8)
def _generated(generator: str, settings_json: str) -> Source:
    gym = import_extra("reasoning_gym", "reasoning-gym", "maths", "the environment maths")
    settings = json.loads(settings_json)
    allowed = sorted(set(gym.factory.DATASETS) - _EVALUATING - _UNANSWERED)
    if generator in _EVALUATING:
        raise ValueError(f"generator {generator} is not offered: it checks an answer by running it as Python code")
    if generator in _UNANSWERED:
        raise ValueError(f"generator {generator} is not offered: its problems come without an answer")
    if generator not in allowed:
        near = difflib.get_close_matches(generator, allowed, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"unknown generator {generator!r}; allowed: {', '.join(allowed)}{hint}")
    for key in ("seed", "size"):
        if key in settings:
            raise ValueError(
                f"settings of generator {generator} must not hold {key}: instances come from the run's seed"
            )
    try:
        size = _SMALLER.get(generator, _SIZE)
        problems = gym.create_dataset(generator, seed=0, size=size, **settings)
    except Exception as error:  # each generator raises what it likes
        raise ValueError(f"generator {generator}: {' '.join(str(error).split())}") from None

    def draw(rng: np.random.Generator) -> Problem | None:
        entry = problems[int(rng.integers(size))]
        answer = str(entry["answer"] or "").strip()
        right = _checked_by(None if generator in _BY_TEXT else problems, entry, answer)
        fits = answer and len(answer) <= MAX_ANSWER and "||" not in answer and right(answer)
        text = str(entry["question"]).strip()
        return Problem(text, answer, " ".join(text.split()), right) if fits else None

    return draw


def _checked_by(problems: Any, entry: Tree, answer: str) -> Callable[[str], bool]:
    def is_right(given: str) -> bool:
        if same_answer(given, answer):
            return True
        if problems is None:
            return False
        try:
            return bool(problems.score_answer(given, entry) >= 1.0)
        except Exception:  # a check that fails on what a model wrote: then it is not right
            return False

    return is_right


@lru_cache(maxsize=4)
def read_problems(file: str) -> tuple[Problem, ...]:
    """Returns the problems of a JSONL file. Raises ValueError: an unreadable file or a broken row, with its line."""
    return tuple(read_rows(file, problem_of))


def problem_of(row: Tree) -> Problem:
    """Reads GSM8K's `question` and `answer` (the result after ####), or MetaMathQA's `query` and `response`.

    Raises:
        ValueError: a row that has no problem or no answer.
    """
    text = text_of(row, "question", "query", "problem")
    said = text_of(row, "answer", "response", "solution")
    # The last marker counts: a solution may name it before.
    answer = re.split(r"####|[Tt]he answer is:?", said)[-1].strip().rstrip(".")
    if not answer or len(answer) > MAX_ANSWER or "||" in answer:
        raise ValueError(f"has no answer of 1…{MAX_ANSWER} characters without ||: {answer[:40]!r}")
    first = row.get("original_question")
    key = " ".join((first if isinstance(first, str) and first.strip() else text).lower().split())
    return Problem(text, answer, key, lambda given: same_answer(given, answer))
