"""SearchQA: SQuAD's scores, searches, loaders, the retrieval server on loopback."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from ragen_envs import make_text_env
from ragen_envs.retrieval.bm25 import BM25
from ragen_envs.retrieval.http import RetrieverError
from ragen_envs.search_qa.env import SearchQAEnv
from ragen_envs.search_qa.make_questions import make_all
from ragen_envs.search_qa.questions import Question, question_of
from ragen_envs.search_qa.scoring import exact_match, f1, normalised


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("The  Eiffel Tower!", "eiffel tower"),
        ("a.b.c.", "abc"),
        ("an apple, the pear", "apple pear"),
        ("theatre", "theatre"),
        (".to", "to"),
    ],
)
def test_answers_are_normalised_as_squad_does(answer: str, expected: str) -> None:
    assert normalised(answer) == expected


def test_f1_counts_shared_words_and_takes_the_best_right_answer() -> None:
    assert f1("Port Louis city", ["Port Louis"]) == pytest.approx(0.8)
    assert f1("x x y", ["x y y"]) == pytest.approx(2 / 3)
    assert f1("b", ["a", "b c"]) == pytest.approx(2 / 3)
    assert f1("no", ["no way"]) == 0.0
    assert exact_match("the NO", ["no"])


@pytest.mark.parametrize(
    ("answer", "min_f1", "reward"),
    [
        ("Port Louis", 0.3, 1.0),
        ("port louis!", 0.3, 1.0),
        ("Port Louis city", 0.3, 0.8),
        ("Louis and three more words", 0.3, 2 / 7),
        ("Louis and three more words", 0.2, 2 / 7),
        ("Paris", 0.0, 0.0),
    ],
)
def test_the_answer_gives_one_or_its_f1_from_a_threshold_on(answer: str, min_f1: float, reward: float) -> None:
    env = SearchQAEnv(min_f1=min_f1)
    env.reset(seed=0)
    env._question = Question("Which?", ("Port Louis",))
    expected = reward if reward >= min_f1 else 0.0
    _, got, terminated, *_ = env.step(f"finish[{answer}]")
    assert got == pytest.approx(expected) and terminated
    assert env.success == (reward == 1.0)
    assert env.parse_action("search[x]") is None


def test_a_search_shows_the_best_documents_and_costs_nothing() -> None:
    env = SearchQAEnv(top_k=3)
    env.reset(seed=0)
    text, reward, terminated, *_ = env.step("SEARCH[ country   Norway ]")
    assert (reward, terminated) == (0.0, False)
    lines = text.split("\n")
    assert len(lines) == 4 and lines[1].startswith("Norway: Norway is a country in Europe")
    assert env.step("search[zzzz]")[0].endswith("Nothing found")


def test_known_searches_lead_to_every_shipped_answer() -> None:
    env = SearchQAEnv()
    for seed in range(60):
        env.reset(seed=seed, options={"split": "test"})
        assert env.best_success(10, 1, 10) == 1.0
        plan = env.solve()
        assert plan is not None and 3 <= len(plan) <= 5
        for action in plan:
            _, reward, *_ = env.step(env.parse_action(action) or "")
        assert reward == 1.0 and env.success


def test_no_shipped_answer_stands_in_its_question_or_in_what_the_question_itself_finds_first() -> None:
    env = SearchQAEnv(top_k=1)
    direct = 0
    for question in env.questions[:200]:
        assert f" {normalised(question.answers[0])} " not in f" {normalised(question.text)} "
        found = env._retriever.search(question.text, 1)
        direct += any(f" {normalised(question.answers[0])} " in f" {normalised(one.text)} " for one in found)
    assert direct < 60, "most questions take more than one search"


def test_the_shipped_files_come_out_of_their_script() -> None:
    for name, rows in zip(("questions", "corpus"), make_all(), strict=True):
        data = resources.files("ragen_envs.search_qa").joinpath(f"{name}.jsonl.gz").read_bytes()
        assert len(data) < 100_000
        assert [json.loads(line) for line in gzip.decompress(data).decode().splitlines()] == rows


def test_ranks_are_those_of_bm25_and_ties_keep_their_order() -> None:
    index = BM25(["red shoe", "blue shoes and hats", "red shoe", "a hat"], "search", "a test")
    assert index.top("shoes", 4) == [0, 2, 1]
    assert index.top("red shoe", 1) == [0]
    assert index.top("the", 3) == index.top("unknown", 3) == index.top("", 3) == []


@pytest.mark.parametrize(
    "row",
    [
        {"question": "Who?", "answer": "X"},  # HotpotQA
        {"question": "Who?", "answer": ["X", "Y"]},  # NQ-open
        {"question": "Who?", "golden_answers": ["X"]},  # FlashRAG
    ],
)
def test_rows_of_known_data_sets_are_read(row: dict[str, Any]) -> None:
    assert question_of(row).answers[0] == "X"


def _folder(place: Path, questions: list[object], corpus: list[object] | None = None) -> str:
    for name, rows in (("questions", questions), ("corpus", corpus)):
        if rows is not None:
            lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
            (place / f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return str(place)


def test_a_users_folder_is_played(tmp_path: Path) -> None:
    questions: list[object] = [{"question": f"Who is number {n}?", "answer": f"Name{n}"} for n in range(40)]
    corpus: list[object] = [{"id": n, "contents": f'"Number {n}"\nThis is Name{n}.'} for n in range(40)]
    env = SearchQAEnv(data=_folder(tmp_path, questions, corpus))
    env.reset(seed=0)
    number = env.question.answers[0][4:]
    assert f"Number {number}: This is Name{number}." in env.step(f"search[number {number}]")[0]
    assert env.best_success(10, 1, 10) == 1.0


@pytest.mark.parametrize(
    ("questions", "corpus", "sentence"),
    [
        ([{"question": "x"}], None, "questions.jsonl, line 1: lacks answer or answers or golden_answers"),
        ([{"question": "x", "answer": []}], None, "line 1: the answer must be a text or a list"),
        ([{"question": "x", "answer": "the"}], None, "line 1: the answer must be a text or a list"),
        ([{"question": "x", "answer": "y"}, "{"], None, "line 2: no JSON"),
        ([{"question": "x", "answer": "y"}], [{"title": "t"}], "corpus.jsonl, line 1: lacks text"),
        ([{"question": "x", "answer": "y"}], None, r"must hold one file corpus\*.jsonl"),
    ],
)
def test_broken_data_gets_one_sentence(
    tmp_path: Path, questions: list[object], corpus: list[object] | None, sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence) as told:
        make_text_env("search_qa", {"data": _folder(tmp_path, questions, corpus)})
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    "wrong", [{"top_k": 0}, {"min_f1": 1.5}, {"retriever": "localhost:8000"}, {"retriever": "file:///etc"}]
)
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        SearchQAEnv(**wrong)


@contextmanager
def _server(answer: bytes | None, asked: list[Any]) -> Iterator[str]:
    """A retrieval server on loopback; without an answer it says 500."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(500 if answer is None else 200)
            self.end_headers()
            self.wfile.write(answer or b"")

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/retrieve"
    finally:
        server.shutdown()
        server.server_close()


def test_a_retrieval_server_is_asked_as_search_r1_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    found = [{"document": {"contents": '"Oslo"\nA city.'}, "score": 2.0}, {"title": "Bergen", "text": "Another."}]
    asked: list[Any] = []
    with _server(json.dumps({"result": [found]}).encode(), asked) as url:
        env = SearchQAEnv(retriever=url, top_k=2)
        env.reset(seed=0)
        assert env.step("search[Norway]")[0].split("\n")[1:] == ["Oslo: A city.", "Bergen: Another."]
    assert asked[-1] == {"queries": ["Norway"], "topk": 2, "return_scores": False}
    with pytest.raises(RetrieverError, match="does not answer"):
        env.step("search[again]")


@pytest.mark.parametrize("answer", [None, b"", b"{}", b'{"result": []}', b'{"result": [[3]]}', b"[" * 100_000])
def test_a_server_that_answers_otherwise_is_told_in_one_sentence(
    answer: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with _server(answer, []) as url, pytest.raises(ValueError, match=r"the retriever http.*answer") as told:
        make_text_env("search_qa", {"retriever": url})
    assert "\n" not in str(told.value)


def test_a_server_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with pytest.raises(ValueError, match=r"the retriever http://127\.0\.0\.1:9/ does not answer: .*refused"):
        SearchQAEnv(retriever="http://127.0.0.1:9/")
