"""SearchQA: answer a question by searching, often in several steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import ClassVar

import gymnasium as gym
import numpy as np

from ragen_envs.json_lines import only_file
from ragen_envs.retrieval.documents import Document, LocalRetriever, Retriever, read_corpus
from ragen_envs.retrieval.http import HttpRetriever
from ragen_envs.search_qa.questions import Question, read_questions
from ragen_envs.search_qa.scoring import exact_match, f1, normalised
from ragen_envs.spaces import AnyText
from ragen_envs.splits import Split, draw_instance, split_of
from ragen_envs.task import FreeTextTask, check_pool_size, read_options
from ragen_envs.tree import Tree
from ragen_envs.verb_action import MAX_ARGUMENT, parse_verb

_COMMON_ANSWERS = 20
"""Most common training answers among which a blind plan chooses: chosen freely."""
_MAX_SHOWN = 1_000
"""Most characters of a document that are shown: chosen freely, about 200 tokens, so that `top_k` of them fit a
prompt.
"""


class SearchQAEnv(FreeTextTask):
    """An answer ends the episode: 1 for an exact match, else its F1 if that is `min_f1` or more, else 0.

    Args:
        data: folder with `questions*.jsonl` and, unless `retriever` is given, `corpus*.jsonl` (or .gz); None: the
            questions about places and countries that ship.
        retriever: address of a retrieval server (see HttpRetriever); None: BM25 over the corpus.
        top_k: documents that a search returns.
        min_f1: F1 below which a wrong answer gives nothing.
        pool_size: instances per split that seeds are mapped to (seed modulo pool_size); None: no bound.

    Raises:
        ValueError: a setting out of its range, a folder that cannot be read, missing packages, or a server that does
            not answer.
    """

    title: ClassVar[str] = "SearchQA"
    best_how: ClassVar[str] = "share of questions whose answer stands in what the known searches (or the question) find"
    default_limits: ClassVar[Mapping[str, int]] = {"max_turns": 10, "max_actions_per_turn": 1, "max_actions": 10}

    def __init__(
        self,
        data: str | None = None,
        retriever: str | None = None,
        top_k: int = 5,
        min_f1: float = 0.3,
        pool_size: int | None = None,
        render_mode: str | None = "ansi",
    ) -> None:
        if not 1 <= top_k <= 100:
            raise ValueError(f"top_k must be 1…100, got {top_k}")
        if not 0 <= min_f1 <= 1:
            raise ValueError(f"min_f1 must be 0…1, got {min_f1}")
        check_pool_size(pool_size)
        self.render_mode = render_mode
        self.action_space = AnyText(MAX_ARGUMENT + 50)
        self.observation_space = AnyText()
        self.questions = _questions_in(data)
        self._retriever: Retriever = HttpRetriever(retriever) if retriever is not None else _retriever_over(data)
        self._top_k = top_k
        self._min_f1 = min_f1
        self._pool_size = pool_size
        self._question: Question | None = None
        self._found: list[Document] | None = None
        self._made: set[str] = set()
        self._answered: bool | None = None

    @property
    def question(self) -> Question:
        """The current question. Raises ResetNeeded before the first reset."""
        if self._question is None:
            raise gym.error.ResetNeeded("call reset() first")
        return self._question

    def rules(self) -> str:
        """Returns the task in words."""
        return (
            f"Answer the question. search[query] shows the {self._top_k} documents that fit best; finish[answer] "
            "gives your answer, in as few words as it takes, and ends the episode. The right answer gives 1, one that "
            f"shares words with it less, from {self._min_f1:g} on, and any other 0."
        )

    def describe(self) -> str:
        """Returns the question, and the results of the last search."""
        lines = [f"Question: {self.question.text}"]
        if self._answered is not None:
            lines.append("Answered")
        elif self._found is not None:
            lines += [f"{document.title}: {document.text[:_MAX_SHOWN]}" for document in self._found] or [
                "Nothing found"
            ]
        return "\n".join(lines)

    def parse_action(self, text: str) -> str | None:
        """Returns `search[…]` or `finish[…]` (the verb in any case), or None for anything else."""
        verb = parse_verb(text, ("search", "finish"))
        return None if verb is None or self._answered is not None else f"{verb[0]}[{' '.join(verb[1].split())}]"

    @property
    def success(self) -> bool:
        """Whether the answer matched exactly."""
        return bool(self._answered)

    @property
    def instance_key(self) -> str:
        """The question, normalised."""
        return self.question.key

    def solve(self) -> list[str] | None:
        """Returns the known searches (else the question) that are still to make, then the answer; None after the
        answer.
        """
        if self._answered is not None:
            return None
        left = [query for query in self._searches() if query not in self._made]
        return [*(f"search[{query}]" for query in left), f"finish[{self.question.answers[0]}]"]

    def best_success(self, max_turns: int, max_actions_per_turn: int, max_actions: int) -> float:
        """Returns 1 if the searches that fit under the caps find a text with the answer, else 0."""
        searches = self._searches()[: min(max_actions, max_turns * max_actions_per_turn) - 1]
        found = (document for query in searches for document in self._retriever.search(query, self._top_k))
        texts = [f" {normalised(f'{document.title} {document.text}')} " for document in found]
        return float(any(f" {normalised(answer)} " in text for answer in self.question.answers for text in texts))

    def random_action(self, rng: np.random.Generator) -> str:
        """Returns a search for, or an answer of, a random word of the question or of the results."""
        words = (
            (self.question.text if self._found is None else self.describe()).replace("[", " ").replace("]", " ").split()
        )
        word = words[int(rng.integers(len(words)))][:MAX_ARGUMENT]
        return f"search[{word}]" if rng.random() < 0.5 else f"finish[{word}]"

    def blind_choices(self, num_actions: int) -> tuple[int, ...]:
        """Returns the number of common training answers: a blind plan gives one of them."""
        return (len(self._common_answers()),)

    def blind_success(self, plan: tuple[int, ...]) -> float:
        """Returns 1 if common answer `plan[0]` is right, else 0."""
        return float(bool(plan) and exact_match(self._common_answers()[plan[0]], self.question.answers))

    def reset(self, *, seed: int | None = None, options: Tree | None = None) -> tuple[str, Tree]:
        """Draws the question that (seed, split) names; without a seed, one from `np_random`."""
        super().reset(seed=seed)
        split, _ = read_options(seed, options)
        seed = self._seed_or_draw(seed, self._pool_size)
        questions = self.questions
        self._question = draw_instance(
            seed, split, lambda rng: questions[int(rng.integers(len(questions)))], lambda question: question.key
        )
        self._found, self._made, self._answered = None, set(), None
        return self.describe(), {"instance_key": self.instance_key}

    def step(self, action: str) -> tuple[str, float, bool, bool, Tree]:
        """Makes one search, or gives the answer; any other string changes nothing and gives 0.

        Raises:
            RetrieverError: the retrieval server does not answer.
        """
        known = self.parse_action(action)
        if known is None:
            return self.describe(), 0.0, self._answered is not None, False, {}
        verb, argument = known[:-1].split("[", 1)
        if verb == "search":
            self._found = self._retriever.search(argument, self._top_k)
            self._made.add(argument)
            return self.describe(), 0.0, False, False, {}
        self._answered = exact_match(argument, self.question.answers)
        shared = f1(argument, self.question.answers)
        reward = 1.0 if self._answered else shared if shared >= self._min_f1 else 0.0
        return self.describe(), reward, True, False, {}

    def _searches(self) -> list[str]:
        return [
            " ".join(query.split())[:MAX_ARGUMENT].strip() for query in self.question.searches or (self.question.text,)
        ]

    def _common_answers(self) -> list[str]:
        return _common_answers(self.questions)


@lru_cache(maxsize=4)
def _common_answers(questions: tuple[Question, ...]) -> list[str]:
    train = Counter(one.answers[0] for one in questions if split_of(one.key) is Split.TRAIN)
    return [answer for answer, _ in train.most_common(_COMMON_ANSWERS)] or [questions[0].answers[0]]


@lru_cache(maxsize=4)
def _questions_in(data: str | None) -> tuple[Question, ...]:
    return tuple(read_questions(_file(data, "questions")))


@lru_cache(maxsize=2)
def _retriever_over(data: str | None) -> LocalRetriever:
    return LocalRetriever(read_corpus(_file(data, "corpus")), "search", "the environment search_qa")


def _file(data: str | None, stem: str) -> Path:
    if data is not None:
        return only_file(data, stem)
    # The package is a folder: importlib.resources gives real paths.
    return Path(str(resources.files("ragen_envs.search_qa").joinpath(f"{stem}.jsonl.gz")))
