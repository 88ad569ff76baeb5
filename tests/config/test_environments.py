"""Several environments and curricula in a config: what is taken, what is refused by name, and each as if alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rllib_ragen.config.command_line import key_table
from rllib_ragen.config.environments import (
    environments_word,
    exams,
    is_mixed,
    picked,
    reply_limits,
    without_label,
    worlds,
)
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.load import flatten, foundation, merge, parse_assignments, read_yaml, save_config
from rllib_ragen.config.presets import SETTINGS
from rllib_ragen.models.tiny.run_model import check_taught, run_model_folder
from rllib_ragen.starpo.checkpoint.manifest import config_differences
from rllib_ragen.starpo.checks.build_config import build_config

LEVELS = {"levels": [{"task": {"min_solution_steps": 1}, "max_actions": 5}, {"task": {"min_solution_steps": 6}}]}
SOKOBAN: dict[str, Any] = {"name": "ragen/Sokoban-v0", "weight": 2, "task": {"observation": "both"}, "max_actions": 20}
LAKE = {"name": "frozen_lake", "task": {"size": 5}, "max_turns": 7, "think": False, "max_reply_tokens": 30}
SEVERAL: dict[str, Any] = {"envs": [{**SOKOBAN, "curriculum": {**LEVELS, "eval_levels": "all"}}, LAKE]}


def test_each_environment_is_a_config_of_its_own() -> None:
    config = build_config(SEVERAL)
    sokoban, lake = worlds(config)
    assert (sokoban.label, sokoban.weight, lake.label, lake.weight) == ("sokoban", 2, "frozen_lake", 1)
    assert [level.env.task for level in sokoban.levels] == [
        {"observation": "both", "min_solution_steps": 1}, {"observation": "both", "min_solution_steps": 6},
    ]  # fmt: skip
    assert [level.text_limits().max_actions for level in sokoban.levels] == [5, 20]
    alone = {key: value for key, value in SOKOBAN.items() if key != "weight"} | {"task": sokoban.target.env.task}
    assert sokoban.target == build_config({"env": alone})
    assert (lake.target.text_limits().max_turns, lake.target.text_limits().think) == (7, False)
    assert reply_limits((sokoban, lake), 0) == {"sokoban": config.rollout.max_reply_tokens, "frozen_lake": 30}
    assert [exam.path for exam in exams((sokoban, lake))] == ["sokoban", "sokoban/level_1", "frozen_lake"]
    assert is_mixed((sokoban, lake)) and is_mixed((sokoban,)) and not is_mixed((lake,))
    assert environments_word(config) == "sokoban-frozen_lake"


def test_a_single_environment_is_one_without_a_label() -> None:
    config = build_config({"env": {"curriculum": {**LEVELS, "eval_levels": "all"}, "max_actions": 20}})
    (world,) = worlds(config)
    assert world.label == "" and [exam.path for exam in exams([world])] == ["", "level_1"]
    assert picked(config, None) == world.target and world.target.env.curriculum is None
    plain = build_config({})
    assert worlds(plain)[0].target is plain and not is_mixed(worlds(plain))


def test_a_config_reads_back_the_same_and_says_only_what_is_used(tmp_path: Path) -> None:
    config = build_config(SEVERAL)
    save_config(config, tmp_path / "config.yaml")
    assert build_config(read_yaml(tmp_path / "config.yaml")) == config
    assert "env" not in config.model_dump() and "envs" not in build_config({}).model_dump()
    flat = flatten(config.model_dump(mode="json"))
    assert flat["envs[0].weight"] == 2 and flat["envs[0].curriculum.levels[1].task.min_solution_steps"] == 6
    other = build_config(merge(SEVERAL, {"envs": [SEVERAL["envs"][0], {**LAKE, "max_turns": 8}]}))
    (told,) = config_differences(config.model_dump(mode="json"), other.model_dump(mode="json"))
    assert told == "envs[1].max_turns (7 in the checkpoint, 8 here)"
    assert config_differences(build_config({}).model_dump(mode="json"), config.model_dump(mode="json"))


def test_set_takes_them_and_no_preset_stands_below() -> None:
    given = parse_assignments(["envs=[{name: sokoban}, {name: frozen_lake, weight: 3}]"])
    assert foundation(given) == {} and foundation({"env": {"name": "bandit"}})["env"]["name"] == "bandit"
    assert [entry.weight for entry in build_config(foundation(given), given).envs] == [1, 3]


def test_a_papers_settings_lie_beneath_the_run_and_not_beneath_the_entries() -> None:
    given = {"preset": "ragen-v2", "envs": [{"name": "sokoban"}, {"name": "frozen_lake"}]}
    found = build_config(foundation(given), given)
    assert (found.preset, found.credit.filter) == ("ragen-v2", "top_p")
    assert [entry.task for entry in found.envs] == [{}, {}]


def test_prompts_of_an_entry_are_read_from_beside_the_file_that_names_them(tmp_path: Path) -> None:
    (tmp_path / "own.md").write_text("Be brief. {system}\n")
    (tmp_path / "run.yaml").write_text("envs: [{name: sokoban, system_prompt: own.md}, {name: frozen_lake}]")
    found = build_config(read_yaml(tmp_path / "run.yaml"))
    assert [entry.system_prompt for entry in found.envs] == ["Be brief. {system}", ""]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a placeholder": ({"envs": [{}, {"name": "bandit", "system_prompt": "{x}"}]}, r"^envs\[1\].system_prompt: "),
    "stored data with a curriculum": (
        {"envs": [{"curriculum": {"levels": [{}, {}]}}], "offline": {"input": "x.jsonl"}},
        r"^envs\[0\].curriculum with offline.input=",
    ),
    "both": ({"env": {"name": "sokoban"}, "envs": [{}]}, "^env and envs are both given"),
    "unknown key": ({"envs": [{}, {"wieght": 2}]}, r"^envs\[1\].wieght: unknown key; did you mean weight\?"),
    "no weight": ({"envs": [{"weight": 0}]}, r"^envs\[0\].weight: must be a number > 0"),
    "no section": ({"envs": ["sokoban"]}, r"^envs\[0\]: must be a section with some of the keys name, "),
    "no list": ({"envs": {"name": "sokoban"}}, r"^envs: must be a list, each a section"),
    "label": ({"envs": [{"label": "a/b"}]}, r"^envs\[0\].label: must be a text of letters"),
    "twice": ({"envs": [{}, {}]}, r"^envs\[1\].label: envs\[0\] is called sokoban, too"),
    "heading": ({"envs": [{"label": "rollout"}]}, r"^envs\[0\].label=rollout is a heading"),
    "level": ({"envs": [{"label": "level_2"}]}, r"^envs\[0\].label=level_2 is a heading"),
    "name": ({"envs": [{}, {"name": "frozen_lak"}]}, r"^envs\[1\].name: unknown environment 'frozen_lak'"),
    "setting": ({"envs": [{}, {**LAKE, "task": {"sise": 2}}]}, r"^envs\[1\].task: frozen_lake: unknown setting 'sise'"),
    "game": ({"envs": [{}, {"name": "TicTacToe"}]}, r"^envs\[1\].name=tic_tac_toe is a game for several seats"),
    "seats": ({"envs": [{}], "multi_agent": {"mode": "league"}}, r"^multi_agent.mode=league with envs\[0\].name"),
    "reply": ({"envs": [{"max_reply_tokens": 1024}]}, r"^envs\[0\].max_reply_tokens=1024 must be below"),
    "overlong": (
        {"envs": [{"max_reply_tokens": 9}], "credit": {"overlong_cache": 10}},
        r"^credit.overlong_cache=10 is more than a reply may have \(envs\[0\].max_reply_tokens=9\)",
    ),
    "one level": ({"env": {"curriculum": {"levels": [{}]}}}, r"^env.curriculum.levels: must be a list, .*≥ 2"),
    "no levels": ({"env": {"curriculum": {}}}, r"^env.curriculum.levels: is missing; must be a list"),
    "level's key": (
        {"env": {"curriculum": {"levels": [{}, {"max_turn": 3}]}}},
        r"^env.curriculum.levels\[1\].max_turn: unknown key; did you mean max_turns\?",
    ),
    "level's task": (
        {"envs": [{}, {**LAKE, "curriculum": {"levels": [{}, {"task": {"size": 1}}]}}]},
        r"^envs\[1\].curriculum.levels\[1\], over envs\[1\].task: ",
    ),
    "low": ({"env": {"curriculum": {**LEVELS, "low": 0.9}}}, "^env.curriculum.low=0.9 must be below env.curriculum"),
    "raise": ({"env": {"curriculum": {**LEVELS, "raise_at": 0.95}}}, "^env.curriculum.raise_at=0.95 must not be"),
    "no outside": ({"env": {"curriculum": {**LEVELS, "outside": 0}}}, "^env.curriculum.outside: must be a number > 0"),
    "game's levels": (
        {"env": {"name": "kuhn_poker", "curriculum": LEVELS}},
        "^env.curriculum with env.name=kuhn_poker",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_makes_no_sense_is_one_sentence_with_its_key(name: str) -> None:
    given, message = REFUSED[name]
    with pytest.raises(ConfigError, match=message) as caught:
        build_config(given)
    assert "\n" not in str(caught.value)


def test_labels_make_two_of_the_same_environment() -> None:
    config = build_config({"envs": [{"label": "small"}, {"task": {"height": 8, "width": 8}}]})
    assert [world.label for world in worlds(config)] == ["small", "sokoban"]


def test_one_of_several_is_picked_by_its_label() -> None:
    config = build_config(SEVERAL)
    assert picked(config, "frozen_lake").env.max_turns == 7
    with pytest.raises(ConfigError, match=r"^--env is not given: .*allowed: sokoban, frozen_lake$"):
        picked(config, None)
    with pytest.raises(ConfigError, match=r"^--env lake is none of the run's: "):
        picked(config, "lake")
    given = {"env": {"name": "frozen_lake"}, "seed": 3}
    assert without_label(config, given) == ({"seed": 3}, "frozen_lake")
    assert without_label(build_config({}), given) == (given, None)


def test_the_embedded_model_must_have_been_taught_all_of_them() -> None:
    taught = build_config({"envs": [{}, {"name": "frozen_lake"}]})
    check_taught(taught)
    assert run_model_folder(taught) == run_model_folder(build_config({}))
    for name, message in {
        "bandit": "different small models",
        "rubik": r"envs\[1\].name=rubik: .* was not taught",
    }.items():
        with pytest.raises(ValueError, match=message):
            check_taught(build_config({"envs": [{}, {"name": name, "max_actions": 20, "max_turns": 5}]}))


def test_the_shipped_settings_of_two_environments_are_runnable() -> None:
    config = build_config(read_yaml(SETTINGS / "sokoban_and_frozen_lake.yaml"))
    check_taught(config)
    assert [exam.path for exam in exams(worlds(config))] == ["sokoban", "sokoban/level_1", "frozen_lake"]


def test_keys_lists_them() -> None:
    table = key_table()
    for key in ("envs ", "envs[…].weight ", "env.curriculum ", "env.curriculum.levels[…].task "):
        assert f"\n{key}" in table, key
