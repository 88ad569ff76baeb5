"""Questions with their answers, in JSON lines: HotpotQA's and Natural Questions' keys are understood."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ragen_envs.json_lines import read_rows, text_of
from ragen_envs.search_qa.scoring import normalised
from ragen_envs.tree import Tree

_ANSWER_KEYS = ("answer", "answers", "golden_answers")


@dataclass(frozen=True)
class Question:
    """A question, its right answers, and searches that find them."""

    text: str
    answers: tuple[str, ...]
    searches: tuple[str, ...] = ()
    """Queries that lead to the answer; empty if none are known."""

    @property
    def key(self) -> str:
        """Canonical text."""
        return normalised(self.text)


def read_questions(file: str | Path) -> list[Question]:
    """Returns the different questions of a file, each where it first stands.

    Raises:
        ValueError: an unreadable file or a broken row, with its line.
    """
    return list({question.key: question for question in reversed(read_rows(file, question_of))}.values())[::-1]


def question_of(row: Tree) -> Question:
    """Reads `question`, and `answer`, `answers` or `golden_answers`: a text or several. Raises ValueError."""
    given = next((row[key] for key in _ANSWER_KEYS if key in row), None)
    if given is None:
        raise ValueError(f"lacks {' or '.join(_ANSWER_KEYS)}")
    answers = tuple(given) if isinstance(given, list) else (given,)
    if not answers or not all(isinstance(answer, str) and normalised(answer) for answer in answers):
        raise ValueError(f"the answer must be a text or a list of texts with a word in each, got {str(given)[:60]}")
    return Question(text_of(row, "question"), answers, tuple(map(str, row.get("searches", ()))))
