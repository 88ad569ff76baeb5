"""What goes wrong in the one episode of `play` is told in one sentence, within the environment's time limit."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ragen_envs.registry import make_text_env
from ragen_envs.text import TextEnv
from rllib_ragen.faults.exit_codes import ExitCode
from rllib_ragen.play import shown_session
from rllib_ragen.play.__main__ import main
from rllib_ragen.rollout.engines.base import EngineFailure
from rllib_ragen.rollout.engines.hf import HFEngine
from rllib_ragen.types import Sampled
from tests.rollout.test_garbage import GARBAGE

NEVER = threading.Event()
WHO = {"person": ("Up\n", ()), "model": ("", ("--policy", "tiny"))}


@pytest.fixture(autouse=True)
def release_the_hung() -> Iterator[None]:
    NEVER.clear()
    yield
    NEVER.set()


def played(monkeypatch: pytest.MonkeyPatch, garble: Callable[[Any], Any], who: str, *settings: str) -> int:
    """Plays Sokoban in an environment that garbles every answer; the exit code."""

    def make(*how: Any) -> TextEnv:
        env = make_text_env(*how)
        step = env.step
        env.step = lambda action: garble(step(action))  # type: ignore[method-assign]
        return env

    script, options = WHO[who]
    monkeypatch.setattr(shown_session, "make_text_env", make)
    monkeypatch.setattr("sys.stdin", io.StringIO(script))
    return main(["--env", "sokoban", *options, "--set", "learner.torch_threads=1", *settings])


@pytest.mark.parametrize("name", GARBAGE)
def test_L1_garbage_ends_the_game_in_one_sentence(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    garble, sentence = GARBAGE[name]
    assert played(monkeypatch, garble, "person") == ExitCode.ENVIRONMENT
    captured = capsys.readouterr()
    assert captured.err.startswith("rllib_ragen: the episode failed: ") and captured.err.count("\n") == 1
    assert sentence in captured.err and "[system]" in captured.out


@pytest.mark.parametrize("who", WHO)
def test_L1_a_hung_environment_is_given_up(
    who: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started = time.monotonic()
    code = played(monkeypatch, lambda answer: NEVER.wait(), who, "rollout.env_timeout_s=1")
    assert code == ExitCode.ENVIRONMENT and time.monotonic() - started < 60
    assert "the environment took longer than 1 s" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (EngineFailure("no memory"), "the episode failed: no memory"),
        (Sampled([5, 6], [-1.0, float("nan")], False, 0), "the engine gave non-finite log-probs"),
    ],
)
def test_L2_a_failed_reply_ends_the_game_in_one_sentence(
    answer: Any, sentence: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(HFEngine, "poll", lambda self: [(0, answer)])
    assert played(monkeypatch, lambda step: step, "model") == ExitCode.ENVIRONMENT
    assert sentence in capsys.readouterr().err


def test_a_full_context_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        played(monkeypatch, lambda step: step, "model", "rollout.max_context_tokens=100", "rollout.max_reply_tokens=40")
        == 0
    )
    shown = capsys.readouterr().out
    assert "the context is full (rollout.max_context_tokens=100)" in shown and "stopped before the end" in shown
