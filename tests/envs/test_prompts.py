"""Prompts of a user's own: strict placeholders, filled in everywhere, and nothing else changed."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from ragen_envs import make_text_env
from ragen_envs.games import make_text_game
from ragen_envs.games.limits import GameLimits
from ragen_envs.prompts import check_prompt, fill_prompt
from ragen_envs.text import TextLimits
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.load import parse_assignments, parse_config, read_yaml, save_config
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.starpo.checks.build_config import build_config
from rllib_ragen.starpo.config import StarPOConfig
from rllib_ragen.sweep.spec import read_sweep, save_sweep

OWN = {
    "system_prompt": "{title}: {rules} | {reply_format} | {max_turns} {max_actions} {max_actions_per_turn} | {{x}}",
    "prompt_template": "T{turn}/{max_turns} left {actions_left} [{feedback}]\n{state}\n-- {message}",
}


def test_placeholders_are_filled_and_what_the_environment_does_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, own = make_text_env("sokoban"), make_text_env("sokoban", limits=OWN)
    first, info = plain.reset(seed=3)
    said, own_info = own.reset(seed=3)
    assert own_info == info
    assert said == f"T1/5 left 10 []\n{info['state']}\n-- {first}"
    rules = plain.task.rules()
    form = "<think>your reasoning</think><answer>action || action</answer>"
    assert own.system_prompt == f"{plain.task.title}: {rules} | {form} | 5 10 5 | {{x}}"
    assert form in plain.system_prompt
    for reply in ("nonsense", "<think></think><answer>Up</answer>"):
        told, *rest = plain.step(reply)
        own_told, *own_rest = own.step(reply)
        assert own_rest == rest
        feedback = told.splitlines()[0]
        assert own_told.endswith(f"-- {told}") and f"[{feedback}]" in own_told


def test_the_last_word_is_no_prompt() -> None:
    env = make_text_env("bandit", limits={**OWN, "max_turns": 1})
    env.reset(seed=0)
    told, *_ = env.step("nonsense")
    assert "--" not in told


def test_games_have_their_own() -> None:
    limits = {
        "system_prompt": "{system}|{title}|{illegal_move}|{max_turns}|{reply_format}",
        "prompt_template": "{seat} {turn} {legal_actions} [{feedback}] {state} | {message}",
    }
    plain, own = make_text_game("tic_tac_toe"), make_text_game("tic_tac_toe", limits=limits)
    prompts, _ = plain.reset(seed=0)
    (seat,) = prompts
    own_prompts, infos = own.reset(seed=0)
    legal = ", ".join(plain.game.legal_actions(seat))
    assert own_prompts[seat] == f"{seat} 1 {legal} [] {infos[seat]['state']} | {prompts[seat]}"
    assert own.system_prompt.split("|")[1:4] == [plain.game.title, GameLimits().told(), "any number of"]
    assert own.system_prompt.startswith(plain.system_prompt)
    step, own_step = plain.step({seat: "?"}), own.step({seat: "?"})
    (other,) = step.observations
    assert own_step.observations[other].endswith(f"| {step.observations[other]}")
    assert own_step[1:] == step[1:]


def test_what_is_filled_in_is_not_read_again() -> None:
    assert fill_prompt("{a}{{b}}{c}", {"a": "{c}", "c": "{a.b}"}) == "{c}{b}{a.b}"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{rulez}", r"unknown placeholder \{rulez\}; allowed: \{a\}, \{b\}; a brace that is text is written twice"),
        ("{}", r"unknown placeholder \{\}"),
        ("{0}", r"unknown placeholder \{0\}"),
        ("{a.__class__}", r"unknown placeholder \{a.__class__\}"),
        ("{a[0]}", r"unknown placeholder \{a\[0\]\}"),
        ("{a!r}", r"unknown placeholder \{a!r\}"),
        ("{a:>9999999}", r"unknown placeholder \{a:>9999999\}"),
        ("{a", "expected '}' before end of string; a brace that is text is written twice"),
        ("a}", "Single '}' encountered in format string; a brace"),
        ("{b}", r"must hold \{a\}, or replies could not depend on it"),
        ("{{a}}", r"must hold \{a\}"),
    ],
)
def test_what_is_no_placeholder_is_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=f"^{says}"):
        check_prompt(text, ["a", "b"], ["a"])


@pytest.mark.parametrize(
    ("env", "key", "text", "allowed"),
    [
        ("sokoban", "system_prompt", "{seat}", r"\{system\}, \{title\}, \{rules\}, \{reply_format\}, \{max_turns\}"),
        ("tic_tac_toe", "system_prompt", "{max_actions}", r".*\{illegal_move\}"),
        ("sokoban", "prompt_template", "{state} {seat}", r"\{message\}, \{state\}, \{feedback\}"),
        ("tic_tac_toe", "prompt_template", "{state} {actions_left}", r".*\{legal_actions\}"),
    ],
)
def test_a_config_is_refused_with_the_key_and_the_names(env: str, key: str, text: str, allowed: str) -> None:
    with pytest.raises(ConfigError, match=rf"^env\.{key}: unknown placeholder .*; allowed: {allowed}"):
        build_config({"env": {"name": env, key: text}})
    limits: Any = TextLimits if env == "sokoban" else GameLimits
    with pytest.raises(ValueError, match="unknown placeholder"):
        limits(**{key: text})


def test_a_template_that_hides_the_state_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^env\.prompt_template: must hold \{message\} or \{state\}"):
        build_config({"env": {"prompt_template": "Go on"}})


def test_a_file_is_read_once_from_where_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "system.txt").write_text("You push boxes.\n{system}\n", encoding="utf-8")
    (tmp_path / "run.yaml").write_text("env: {system_prompt: prompts/system.txt}\n")
    config = parse_config(read_yaml(tmp_path / "run.yaml"))
    assert config.env.system_prompt == "You push boxes.\n{system}"
    monkeypatch.chdir(tmp_path / "prompts")
    for way in (
        parse_config(parse_assignments(["env.system_prompt=system.txt"])),
        StarPOConfig().environment("sokoban", env_config={"limits": {"system_prompt": "system.txt"}}).to_run_config(),
    ):
        assert way.env.system_prompt == config.env.system_prompt
    save_config(config, tmp_path / "saved.yaml")
    (tmp_path / "prompts" / "system.txt").unlink()
    assert parse_config(read_yaml(tmp_path / "saved.yaml")) == config


@pytest.mark.parametrize("said", ["see rules.md", "notes.txt"])
def test_a_files_own_text_is_not_taken_for_a_file(said: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(said)
    (tmp_path / "run.yaml").write_text("env: {system_prompt: a.txt}\n")
    config = parse_config(read_yaml(tmp_path / "run.yaml"))
    assert config.env.system_prompt == f"{said}\n"
    assert parse_config(config.model_dump(mode="json")) == config


@pytest.mark.parametrize(("content", "says"), [(None, "No such file"), (b"\xff\xfe", "it is not UTF-8")])
def test_a_file_that_cannot_be_read_is_one_sentence(content: bytes | None, says: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "p.txt").write_bytes(content)
    with pytest.raises(ConfigError, match=f"the file .*p.txt cannot be read: {says}") as caught:
        parse_config({"env": {"system_prompt": str(tmp_path / "p.txt")}})
    assert str(caught.value).startswith("env.system_prompt: ")


def test_the_files_of_a_sweep_are_read_too(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_text(f"{name}: {{system}}")
    tree: dict[str, Any] = {"name": "s", "space": {"env.system_prompt": {"choice": ["a.txt", "b.txt", ""]}}}
    spec = read_sweep(tree, tmp_path)
    assert [values["env.system_prompt"] for values in spec.combinations()] == ["a: {system}", "b: {system}", ""]
    save_sweep(spec, tmp_path / "sweep.yaml")
    (tmp_path / "a.txt").unlink()
    assert read_sweep(read_yaml(tmp_path / "sweep.yaml"), tmp_path).combinations() == spec.combinations()


def test_a_run_and_rllibs_config_say_the_same() -> None:
    run = RunConfig.model_validate({"env": {"system_prompt": "{rules}", "prompt_template": "{state}"}})
    config = StarPOConfig.from_run_config(run)
    assert config.to_run_config() == run
    assert config.resolved_env_config()["limits"] == asdict(run.text_limits())
    assert run.game_limits().prompt_template == "{state}"
