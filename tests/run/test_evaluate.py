"""`evaluate`: several models in several environments, moved with what is theirs, and all that is found written down."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragen_envs.baselines import settings_key, shipped_baselines
from ragen_envs.presets import all_presets, preset
from ragen_envs.registry import make_task
from ragen_envs.text import TextLimits
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.load import preset as environment
from rllib_ragen.evaluate import __main__ as evaluate
from rllib_ragen.evaluate.environments import base_of, is_the_runs_own, listing, moved_to
from rllib_ragen.evaluate.plan import Job, plan, untaught
from rllib_ragen.rollout.trajectory_json import from_json
from rllib_ragen.run import __main__ as run
from rllib_ragen.starpo.checks.build_config import build_config
from tests.starpo.conftest import local_ray, model, one_thread  # noqa: F401 - fixtures

SMALL = [
    *("--engine", "hf", "--iterations", "1", "--num-groups", "2", "--group-size", "2", "--set", "eval.interval=0"),
    *("eval.num_test_instances=0", "diagnostics.interval=0", "learner.torch_threads=1", "trackers=[]"),
    *("rollout.max_reply_tokens=8", "rollout.max_context_tokens=512", "env.max_turns=2", "env.prompt_style=brief"),
]


def planned(*words: str) -> list[Job]:
    return plan(evaluate.parse(words))


def test_a_run_moves_with_its_way_of_talking_and_takes_nothing_else_along() -> None:
    saved = build_config(
        environment("sokoban"),
        {"env": {"think": False, "task": {"observation": "grid"}}, "rollout": {"max_reply_tokens": 33}},
    )
    config = build_config(moved_to("frozen_lake", saved))
    own = build_config(environment("frozen_lake")).env
    assert config.env.task == own.task
    assert (
        (config.env.max_turns, config.env.max_actions) == (own.max_turns, own.max_actions) != (5, saved.env.max_actions)
    )
    assert (config.env.think, config.env.prompt_style, config.rollout.max_reply_tokens) == (False, "brief", 33)
    for name in ("bandit", "countdown", "kuhn_poker", "tic_tac_toe", "rubik", "sudoku", "game_2048"):
        assert build_config(moved_to(name, saved)).env.name == name


def test_a_preset_of_the_runs_environment_keeps_how_states_are_told() -> None:
    saved = build_config(environment("sokoban"), {"env": {"task": {"observation": "grid"}}})
    larger = build_config(moved_to("sokoban/8x8", saved)).env
    assert larger.task == {"observation": "grid", "height": 8, "width": 8}
    assert larger.max_actions == 10 != saved.env.max_actions
    assert build_config(moved_to("sokoban/ragen-v2", saved)).env.task["observation"] == "both"
    assert is_the_runs_own("sokoban", saved) and is_the_runs_own("ragen/Sokoban-v0", saved)
    assert not is_the_runs_own("sokoban/default", saved)


def test_every_preset_is_an_environment_to_evaluate_in_with_floor_and_ceiling_shipped() -> None:
    shipped, lines = shipped_baselines(), listing().splitlines()
    for env, name, (task, limits) in all_presets():
        found = build_config(base_of(f"{env}/{name}", {}))
        assert (found.env.name, found.env.task) == (env, task)
        assert settings_key(env, task, TextLimits(**limits)) in shipped, (env, name)
        assert any(re.match(rf"{env}/{re.escape(name)} ", line) for line in lines)
    assert len(lines) == len(all_presets()) + 2


@pytest.mark.parametrize("env", ["sokoban", "frozen_lake"])
def test_other_symbols_are_told_and_nothing_else_changes(env: str) -> None:
    settings = {"observation": "grid"}
    plain, other = make_task(env, **settings), make_task(env, **settings, **preset(env, "other-symbols").task)
    cells: dict[str, str] = {}
    for seed in range(20):
        told = [task.reset(seed=seed)[0] for task in (plain, other)]
        assert plain.instance_key == other.instance_key
        cells |= dict(zip(told[0], told[1], strict=True))
    assert all(ours != theirs for ours, theirs in cells.items() if ours != "\n")
    assert len(set(cells.values())) == len(cells) > 4
    for ours, theirs in cells.items():
        meaning = re.search(rf"{re.escape(ours)} ([a-z][a-z ]*)", plain.rules())
        assert ours == "\n" or (meaning is not None and f"{theirs} {meaning[1]}" in other.rules())
    with pytest.raises(ValueError, match="symbols must be plain or letters, got 'runes'"):
        make_task(env, symbols="runes")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["tiny", "--env", "sokobon"], "--env: unknown environment 'sokobon'"),
        (["tiny", "--env", "sokoban/9x9"], "--env: unknown preset '9x9' of sokoban; allowed: default"),
        (["tiny", "--env", "bandit", "bandit"], "'bandit': this environment is named twice"),
        (["tiny", "tiny"], "'tiny': this model is named twice"),
        (["tiny", "--env", "bandit", "--set", "env.task.height=8"], "env.task: .*height"),
    ],
)
def test_bad_input_is_one_sentence(words: list[str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        planned(*words)


def test_the_embedded_model_is_warned_of_and_not_refused_where_it_is_asked_to_go() -> None:
    (job,) = planned("tiny", "--env", "rubik")
    assert "was not taught rubik" in job.warning
    assert [job.warning for job in planned("tiny", "--env", "sokoban", "bandit", "sokoban/8x8")] == ["", "", ""]
    # A run keeps the weights that it was trained from, whatever `tiny` means elsewhere.
    saved = build_config(environment("sokoban"))
    warned = {name: bool(untaught(saved, build_config(moved_to(name, saved)))) for name in ("frozen_lake", "bandit")}
    assert warned == {"frozen_lake": False, "bandit": True}


@pytest.fixture(scope="module")
def trained(model: Path, tmp_path_factory: pytest.TempPathFactory, local_ray: None) -> Iterator[Path]:  # noqa: F811
    """A run of one iteration."""
    results = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        for module in (run, evaluate):
            # Ray is there already, for all tests of this process.
            patch.setattr(module, "start_ray", lambda config: None)
        words = ["--env", "frozen_lake", "--model", str(model), "--results-dir", str(results), "--name", "lake"]
        assert run.main([*words, *SMALL]) == 0
        yield results / "lake"


def test_several_models_in_several_environments_are_one_table_and_one_record(
    trained: Path,
    model: Path,  # noqa: F811
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "out"
    envs = ["frozen_lake", "frozen_lake/other-symbols", "bandit"]
    small = ["--set", *SMALL[SMALL.index("--set") + 1 :]]
    words = [str(trained), str(model), "--env", *envs, "--num-instances", "6", "--engine", "hf", "--out", str(out)]
    assert evaluate.main([*words, *small]) == 0
    said = capsys.readouterr().out
    rows = re.findall(r"^(lake|\S+) +(frozen_lake\S*|bandit) .*random [\d.]+, best blind plan", said, re.MULTILINE)
    assert [env for _, env in rows] == envs * 2 and rows[0][0] == "lake"
    assert f"figures, trajectories  {out}" in said
    written = json.loads((out / "evaluation.json").read_text())
    assert {"split", "num_instances", "versions", "results"} <= written.keys()
    assert [(one["model"], one["env"]) for one in written["results"]] == rows
    records = [json.loads(line) for line in (out / "trajectories.jsonl").read_text().splitlines()]
    for one in written["results"]:
        assert set(one["scale"]) == {"random", "best blind plan", "best possible"}
        assert one["config"]["env"]["name"] == one["env"].split("/")[0]
        assert one["iteration"] == (1 if one["model"] == "lake" else 0)
        for row in one["evaluations"]:
            instances = row["instances"]
            assert len(instances) == row["distinct_instances"] == 6
            assert row["success"] == pytest.approx(sum(instances.values()) / 6)
            assert {"success_error", "return_mean", "failures"} <= row.keys()
            own = [
                r
                for r in records
                if (r["model"], r["environment"], r["greedy"]) == (one["model"], one["env"], row["greedy"])
            ]
            assert len(own) == 6
            played = [from_json(record) for record in own]
            assert sum(trajectory.success for trajectory in played) == pytest.approx(6 * row["success"])
    assert evaluate.main([*words, *small]) == 2
    assert f"--out: {out} holds an evaluation already" in capsys.readouterr().err


def test_a_run_that_is_evaluated_where_it_was_trained_leaves_it_in_its_folder(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (job,) = planned(str(trained))
    assert job.saved is not None and job.config.env.name == "frozen_lake" and job.warning == ""
    assert evaluate.main([str(trained), "--num-instances", "3", "--split", "val"]) == 0
    (place,) = (trained / "evaluations").iterdir()
    assert str(place) in capsys.readouterr().out
    assert json.loads((place / "evaluation.json").read_text())["split"] == "val"
