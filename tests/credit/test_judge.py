"""A model as judge: what it is asked, what is an answer, what is remembered and paid; a stub server only for errors."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.load import parse_config, read_yaml, save_config
from rllib_ragen.credit.rewards.batch import Rewards
from rllib_ragen.faults.exit_codes import NothingPlayed
from rllib_ragen.models.folder import model_folder
from rllib_ragen.starpo.checkpoint.manifest import config_differences
from rllib_ragen.starpo.checks.build_config import build_config
from rllib_ragen.types import DEFAULT_MODULE, Trajectory
from tests.credit.build import trajectory
from tests.credit.judge_server import Said, completion, stub_server, vllm_server
from tests.patience import PATIENCE_S

KEY = "sk-do-not-tell-123"


def judge(url: str, **settings: Any) -> Rewards:
    told = {"name": "judge", "base_url": url, "model": "judge", "budget_calls": 100, **settings}
    return Rewards(build_config({"rewards": told}), [DEFAULT_MODULE])


def batch(*replies: str) -> list[Trajectory]:
    made = []
    for number, reply in enumerate(replies):
        one = trajectory(f"g{number}", [(2, 3, 0.0), (1, 2, 1.0)])
        one.turns[0].prompt, one.turns[0].reply = "Where is {the box}?", "<think>There.</think>"
        one.turns[1].prompt, one.turns[1].reply = "Reward 1", reply
        made.append(one)
    return made


def given(found: list[Trajectory]) -> list[float | None]:
    return [one.rewards.get("judge") for one in found]


def said(text: Any) -> Said:
    return 200, completion(text), {}


def test_the_judge_is_shown_the_trajectory_and_its_number_is_the_reward(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    with stub_server(lambda number, body: said(" 7.5\n" if "good" in body["messages"][0]["content"] else "0")) as stub:
        found = judge(stub.url, key_variable="MY_KEY", weight=0.1)(batch("good one", "bad one"))
    assert given(found) == [7.5, 0.0]
    assert [turn.reward for turn in found[0].turns] == [0.0, 1.75]
    question = next(body["messages"][0]["content"] for body in stub.asked if "good" in body["messages"][0]["content"])
    assert "[told 1]\nWhere is {the box}?\n\n[reply 1]\n<think>There.</think>\n\n[told 2]\nReward 1" in question
    assert "one number from 0 (worst) to 10 (best)" in question
    request = {name: value for name, value in stub.asked[0].items() if name != "messages"}
    assert request == {"model": "judge", "temperature": 0.0, "max_completion_tokens": 16}
    assert stub.keys == [f"Bearer {KEY}"] * 2


def test_the_question_and_the_request_are_the_configs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    prompt = "{last_reply} for {return}, solved: {success}; {{0}} to {highest}"
    with stub_server(lambda number, body: said("<think>5 or 6</think> 0.25")) as stub:
        body = {"temperature": None, "max_completion_tokens": 200, "seed": 3}
        assert given(judge(stub.url, prompt=prompt, lowest=0, highest=1, body=body)(batch("Up"))) == [0.25]
    assert stub.asked[0]["messages"] == [{"role": "user", "content": "Up for 1, solved: no; {0} to 1"}]
    assert {*stub.asked[0]} == {"model", "messages", "max_completion_tokens", "seed"} and stub.keys == [None]


@pytest.mark.parametrize(
    "text",
    [
        "good",
        "",
        "7/10",
        "7 of 10",
        "11",
        "-1",
        "1e1",
        "nan",
        "٣",
        "7" * 10_000,
        "<think>7",
        "7</think>",
        "__import__('os')",
    ],
)
def test_what_is_no_number_in_range_is_no_reward(text: str) -> None:
    says = r"^the reward judge answered ['\"].*['\"], which is no number from 0 to 10"
    with stub_server(lambda number, body: said(text)) as stub, pytest.raises(NothingPlayed, match=says):
        judge(stub.url)(batch("Up"))
    assert len(stub.asked) == 1, "the likeliest answer would be the same again"


@pytest.mark.parametrize("first", [(429, b"slow down", {"Retry-After": "0"}), (503, b"", {"Retry-After": "0"})])
def test_a_busy_server_is_asked_again_and_each_request_is_paid(first: Said) -> None:
    with stub_server(lambda number, body: first if number < 2 else said("3")) as stub:
        told = judge(stub.url)
        found = told(batch("Up"))
    assert given(found) == [3.0] and len(stub.asked) == 3
    assert told.metrics(found)["judge_calls_lifetime"] == 3


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ((401, b'{"error": "bad key sk-do-not-tell-123"}', {}), r'answered 401 \{"error": "bad key …"\}'),
        ((404, b"no such model", {}), "answered 404 no such model"),
        ((429, b"later", {"Retry-After": "0"}), "answered 429 later"),
        ((200, b"<html>", {}), "gave an answer that is no chat completion: JSONDecodeError"),
        ((200, b"[" * 100_000, {}), "gave an answer that is no chat completion: RecursionError"),
        ((200, b'{"choices": []}', {}), "gave an answer that is no chat completion: IndexError"),
        ((200, completion(None), {}), "gave a chat completion without text"),
        ((200, b"x" * 1_100_000, {}), "answered more than 1000000 bytes"),
    ],
)
def test_a_server_that_answers_otherwise_is_told_without_the_key(
    answer: Said, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with stub_server(lambda number, body: answer) as stub, pytest.raises(NothingPlayed) as caught:
        judge(stub.url)(batch("Up"))
    assert caught.match(f"^the reward judge {says}") and KEY not in str(caught.value) and "\n" not in str(caught.value)


def test_a_missing_key_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    says = r"401 who\? \(its key is read from OPENAI_API_KEY, which is not set\)"
    with stub_server(lambda number, body: (401, b"who?", {})) as stub, pytest.raises(NothingPlayed, match=says):
        judge(stub.url)(batch("Up"))


def test_one_that_does_not_answer_costs_its_own_trajectory() -> None:
    with stub_server(lambda number, body: None if "slow" in body["messages"][0]["content"] else said("4")) as stub:
        found = judge(stub.url, timeout_s=2)(batch("Up", "slow", "Down"))
        stub.released.set()
    assert given(found) == [4.0, None, 4.0]
    assert found[1].error == "the reward judge got no answer within 1.8 s"


def test_a_server_that_is_away_is_said() -> None:
    with stub_server(lambda number, body: said("1")) as stub:
        url = stub.url
    with pytest.raises(NothingPlayed, match=r"^the reward judge (does not answer at|got no answer within)"):
        judge(url, timeout_s=1)(batch("Up"))


def test_questions_are_asked_once_in_a_batch_in_a_run_and_with_a_file_in_any_run(tmp_path: Path) -> None:
    cache = tmp_path / "answers" / "judge.jsonl"
    with stub_server(lambda number, body: said("6")) as stub:
        first = judge(stub.url, cache=str(cache))
        found = first(batch("Up", "Up", "Down", "Up"))
        assert given(found) == [6.0] * 4 and len(stub.asked) == 2
        first(batch("Down"))
        assert len(stub.asked) == 2
        assert first.metrics(found)["judge_remembered_lifetime"] == 3
        with cache.open("a") as file:
            file.write('{"key": "torn')
        assert given(judge(stub.url, cache=str(cache))(batch("Up", "Down"))) == [6.0, 6.0]
        assert len(stub.asked) == 2
        judge(stub.url, cache=str(cache), highest=9)(batch("Up"))
        assert len(stub.asked) == 3, "another question"
    rows = [json.loads(line) for line in cache.read_text().splitlines() if not line.startswith('{"key": "torn')]
    assert {tuple(row) for row in rows} == {("key", "value")}


def test_the_budget_ends_the_run_before_a_batch_that_it_does_not_pay() -> None:
    with stub_server(lambda number, body: said("5")) as stub:
        told = judge(stub.url, budget_calls=5)
        told(batch("a", "b"))
        assert told.stop_reason == ""
        told(batch("c", "d"))
        assert told.stop_reason == ("the judge has made 4 of its 5 calls (budget_calls), and a batch has taken up to 2")
        found = told(batch("e", "f"))
        assert given(found).count(None) == 1, "one call was left"
        assert next(one.error for one in found if one.error) == (
            "the reward judge may not ask any more: its budget_calls of 5 are used up"
        )
        again = judge(stub.url, budget_calls=9)
        again.restore(told.state())
        assert again.stop_reason == "" and len(stub.asked) == 5
        again(batch("g", "h"))
        assert again.stop_reason.startswith("the judge has made 7 of its 9") is False
        again(batch("i", "j"))
    assert again.stop_reason.startswith("the judge has made 9 of its 9 calls")


def test_no_more_is_asked_at_a_time_than_is_allowed() -> None:
    """Each answer waits for another question to be there: two are, and never a third."""
    pair, lock, open_now, most = threading.Barrier(2), threading.Lock(), 0, 0

    def answer(number: int, body: dict[str, Any]) -> Said:
        nonlocal open_now, most
        with lock:
            open_now += 1
            most = max(most, open_now)
        pair.wait(PATIENCE_S)
        with lock:
            open_now -= 1
        return said("1")

    with stub_server(answer) as stub:
        assert given(judge(stub.url, concurrency=2)(batch(*"abcdef"))) == [1.0] * 6
    assert most == 2


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"base_url": "ftp://x"}, "base_url must begin with http:// or https://, got 'ftp://x'"),
        ({"base_url": "http://me:secret@x/v1"}, "base_url must hold no user name and no password"),
        ({"budget_calls": 0}, "budget_calls must be an integer ≥ 1"),
        ({"budget_calls": True}, "budget_calls must be an integer ≥ 1"),
        ({"concurrency": 0}, "concurrency must be an integer ≥ 1 and ≤ 1000"),
        ({"lowest": 3, "highest": 3}, "lowest and highest must be numbers, the first below the second"),
        ({"key_variable": "sk-123"}, "key_variable must be the name of an environment variable"),
        ({"prompt": "{replies}"}, r"prompt: unknown placeholder \{replies\}; allowed: \{transcript\}"),
        ({"prompt": "Good?"}, r"prompt: must hold \{transcript\} or \{last_reply\}"),
        ({"body": {"messages": []}}, "body must be a mapping without messages"),
        ({"model": ""}, "model must be a text"),
    ],
)
def test_bad_settings_are_one_sentence(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=f"^rewards: Judge: {says}"):
        judge("http://127.0.0.1:1/v1", **settings)


def test_a_budget_must_be_given() -> None:
    told = {"name": "judge", "base_url": "http://127.0.0.1:1/v1", "model": "x"}
    with pytest.raises(ConfigError, match=r"^rewards: judge: the setting 'budget_calls' must be given"):
        build_config({"rewards": told})


def test_its_paths_are_from_the_file_that_says_them_and_move_with_the_run(tmp_path: Path) -> None:
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "judge.md").write_text("Is {last_reply} right?\n")
    told = "{name: judge, base_url: 'http://x/v1', model: m, budget_calls: 9, cache: c.jsonl, prompt: prompts/judge.md}"
    (tmp_path / "run.yaml").write_text(f"rewards:\n- {told}\n")
    config = parse_config(read_yaml(tmp_path / "run.yaml"))
    assert config.rewards[0].settings["prompt"] == "Is {last_reply} right?"
    assert config.rewards[0].settings["cache"] == str(tmp_path / "c.jsonl")
    save_config(config, tmp_path / "config.yaml")
    (tmp_path / "prompts" / "judge.md").unlink()
    moved = tmp_path.rename(tmp_path.with_name(f"{tmp_path.name}-moved"))
    again = parse_config(read_yaml(moved / "config.yaml"))
    assert again.rewards[0].settings == {**config.rewards[0].settings, "cache": str(moved / "c.jsonl")}
    more = {**config.rewards[0].model_dump(mode="json"), "budget_calls": 99}
    assert (
        config_differences(config.model_dump(mode="json"), {**again.model_dump(mode="json"), "rewards": [more]}) == []
    )
    other = [{**more, "model": "another"}]
    assert config_differences(config.model_dump(mode="json"), {**again.model_dump(mode="json"), "rewards": other})


@pytest.mark.vllm
@pytest.mark.slow
def test_vllms_own_server_is_a_judge(tmp_path: Path) -> None:
    """The embedded model, held to digits, as a server of vLLM: the same answers again, and remembered."""
    with vllm_server(model_folder("tiny"), tmp_path / "server.log") as url:
        settings: dict[str, Any] = {"body": {"structured_outputs": {"regex": "[0-9]"}}, "cache": str(tmp_path / "c")}
        first = judge(url, **settings)
        found = given(first(batch("Up", "Down", "Left", "Up")))
        assert all(value is not None and 0 <= value <= 9 for value in found)
        again = judge(url, **{**settings, "cache": None})
        assert given(again(batch("Up", "Down", "Left", "Up"))) == found
        with pytest.raises(NothingPlayed, match=r"^the reward judge answered 404 .*does not exist"):
            judge(url, model="nobody")(batch("Up"))
        with pytest.raises(NothingPlayed, match=r"^the reward judge answered '.*', which is no number from 0 to 10"):
            judge(url)(batch("Up"))
