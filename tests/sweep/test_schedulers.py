"""Who stops or replaces runs of a sweep, seen to do it: real Tune, real runs, on the embedded model."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ray.tune.search.variant_generator import generate_variants

from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.load import read_yaml
from rllib_ragen.run.folder import RunFolder
from rllib_ragen.sweep.population import _Inside, population_scheduler, population_space
from rllib_ragen.sweep.population_member import EXCHANGES_FILE, OWNER_FILE, _start, member_name, member_number
from rllib_ragen.sweep.spec import read_sweep
from rllib_ragen.sweep.study import SweepStudy
from rllib_ragen.sweep.trial import run_folder_of
from tests.sweep.test_sweep import SWEEP, command

SOKOBAN: dict[str, Any] = {
    "name": "tiny",
    "base": {
        "env": {"name": "sokoban", "task": {"min_solution_steps": None}},
        "rollout": {"num_groups": 2, "group_size": 2, "engine": "hf"},
        "learner": {"num_minibatches": 1},
        "diagnostics": {"interval": 0},
        "iterations": 4,
        "eval": {"interval": 1, "num_instances": 16, "num_test_instances": 0},
    },
    # With ten actions a run solves some rooms at once; one is never enough. The good ones come first.
    "space": {"env.max_actions": {"choice": [10, 9, 8, 1]}},
    "sampler": "grid",
    "trials": 4,
    "max_concurrent": 1,
    "objectives": ["success"],
}
POPULATION: dict[str, Any] = {
    "name": "tiny",
    "base": {**SWEEP["base"], "diagnostics": {"interval": 0}, "iterations": 8},
    "space": {"learner.lr": {"loguniform": [1e-5, 1e-3]}, "learner.clip_high": {"choice": [0.2, 0.28]}},
    "sampler": "random",
    "scheduler": "pbt",
    "grace_iterations": 1,
    "exchange_iterations": 1,
    "trials": 2,
    "objectives": ["return"],
}


def sweep(tmp_path: Path, tree: dict[str, Any]) -> tuple[Path, list[str]]:
    file = tmp_path / "tiny.yaml"
    file.write_text(yaml.safe_dump(tree))
    code, lines = command(file, "--results-dir", tmp_path)
    assert code == 0, "\n".join(lines)
    return tmp_path / "tiny", lines


def last_iterations(folder: Path) -> list[int]:
    paths = sorted(folder.glob("runs/*/progress.jsonl"))
    return [max(json.loads(line)["iteration"] for line in path.read_text().splitlines()) for path in paths]


def notes(folder: Path) -> list[str]:
    table = (folder / "trials.csv").read_text().splitlines()
    return sorted(line.rsplit(",", 1)[1] for line in table[1:])


@pytest.mark.slow
@pytest.mark.parametrize("scheduler", ["asha", "median"])
def test_a_hopeless_run_is_stopped_early_and_its_record_says_by_whom(tmp_path: Path, scheduler: str) -> None:
    folder, lines = sweep(tmp_path, {**SOKOBAN, "scheduler": scheduler, "grace_iterations": 1})
    *_, hopeless = last_iterations(folder)
    assert hopeless < 4
    note = f"scheduler {scheduler} at iteration {hopeless}"
    assert note in notes(folder) and "" in notes(folder)
    assert any(note in line for line in lines), "the table says so, too"


@pytest.mark.slow
def test_a_run_that_collapses_is_stopped_by_its_alarm_and_its_record_says_why(tmp_path: Path) -> None:
    """A learning rate that breaks the policy at once, without a clip that could hold it."""
    broken = {"clip_low": 0.99, "clip_high": 100.0, "clip_dual": None, "grad_clip": 1e6}
    base = {**SOKOBAN["base"], "iterations": 14, "learner": broken, "alarms": {"validation_failure": "stop"}}
    tree = {**SOKOBAN, "base": base, "space": {"learner.lr": {"choice": [0.05]}}, "trials": 1}
    folder, _ = sweep(tmp_path, tree)
    (last,) = last_iterations(folder)
    assert last < 14
    (note,) = notes(folder)
    assert note.startswith("alarms.validation_failure=stop and there is a validation failure")
    assert note.endswith(f"(iteration {last})")


@pytest.mark.slow
def test_CMA_ES_searches_ranges(tmp_path: Path) -> None:
    space = {"learner.lr": {"loguniform": [1e-5, 1e-3]}, "learner.entropy_coeff": {"uniform": [0.0, 0.01]}}
    base = {**SWEEP["base"], "iterations": 1}
    folder, _ = sweep(tmp_path, {**SWEEP, "base": base, "space": space, "sampler": "cmaes", "trials": 3})
    assert notes(folder) == ["", "", ""]
    best = read_yaml(folder / "best.yaml")["learner"]
    assert 1e-5 <= best["lr"] <= 1e-3 and 0 <= best["entropy_coeff"] <= 0.01


@pytest.mark.slow
def test_the_worse_member_goes_on_from_the_better_ones_checkpoint(tmp_path: Path) -> None:
    folder, _ = sweep(tmp_path, POPULATION)
    assert last_iterations(folder) == [8, 8]
    exchanges = {
        number: [json.loads(line) for line in path.read_text().splitlines()]
        for number in (0, 1)
        if (path := run_folder_of(folder, number, 0) / EXCHANGES_FILE).is_file()
    }
    assert exchanges, "of two members one is the worse, as soon as both have been judged"
    for number, rows in exchanges.items():
        run = run_folder_of(folder, number, 0)
        assert {row["from"] for row in rows} == {1 - number}
        # The newest checkpoint but the last one is reported with its owner.
        owners = [json.loads(path.read_text()) for path in sorted(run.glob(f"checkpoints/*/{OWNER_FILE}"))]
        assert all(owner["iteration"] < 8 for owner in owners)
        saved = read_yaml(run / "config.yaml")["learner"]
        assert (saved["lr"], saved["clip_high"]) == tuple(rows[-1]["values"][key] for key in POPULATION["space"])
        for row in rows:
            assert 1e-5 <= row["values"]["learner.lr"] <= 1e-3
            donor = run_folder_of(folder, row["from"], 0)
            assert any(
                json.loads(line)["iteration"] == row["iteration"]
                for line in (donor / "progress.jsonl").read_text().splitlines()
            )
        assert "resumed     at iteration" in (run / "log.txt").read_text()


def test_members_keep_their_name_whatever_configuration_they_take_over() -> None:
    assert member_number(f"/results/x/tune/{member_name(12)}") == 12


def test_values_stay_inside_their_range() -> None:
    spec = read_sweep(
        {**POPULATION, "space": {"learner.lr": {"uniform": [1e-5, 1e-3]}, "learner.num_epochs": {"int": [1, 3]}}}
    )
    config = {"number": 0, "values": {"learner.lr": 1.2e-3, "learner.num_epochs": 0.8}}
    assert _Inside(spec)(config) == {"number": 0, "values": {"learner.lr": 1e-3, "learner.num_epochs": 1}}


def test_members_start_with_the_studys_values(tmp_path: Path) -> None:
    spec = read_sweep(POPULATION)
    study = SweepStudy(spec, tmp_path)
    members = [config for _, config in generate_variants(population_space(spec, study))]
    assert [member["number"] for member in members] == [0, 1]
    assert [member["values"] for member in members] == [study.trial(number).params for number in (0, 1)]
    again = [config for _, config in generate_variants(population_space(spec, study))]
    assert again == members, "who resumes asks for no further ones"


def test_values_that_are_handed_on_are_near_the_donors_and_in_their_range() -> None:
    spec = read_sweep(POPULATION)
    scheduler = population_scheduler(spec, "max")
    donor: dict[str, Any] = {"sweep": "x", "number": 1, "values": {"learner.lr": 9e-4, "learner.clip_high": 0.28}}
    drawn = [scheduler._get_new_config(None, SimpleNamespace(config=donor))[0]["values"] for _ in range(50)]
    assert all(1e-5 <= values["learner.lr"] <= 1e-3 for values in drawn)
    assert {values["learner.clip_high"] for values in drawn} == {0.2, 0.28}
    assert any(values["learner.lr"] == pytest.approx(0.8 * 9e-4) for values in drawn)
    assert donor["values"]["learner.lr"] == 9e-4


def test_a_member_goes_on_from_what_it_has_received(tmp_path: Path) -> None:
    """Another's checkpoint becomes its own, newer ones of its own go, its config and a note say what happened."""
    spec = read_sweep(POPULATION)
    path, received = tmp_path / "trial_0000_seed0", tmp_path / "received"
    own, new = {"learner.lr": 1e-4, "learner.clip_high": 0.2}, {"learner.lr": 5e-4, "learner.clip_high": 0.28}
    folder = RunFolder.create(spec.config(own, 0).model_copy(update={"results_dir": tmp_path}), path.name)

    def save(final: Path) -> None:
        (final / "state.json").write_text("its own")

    for k in (1, 2, 3):
        folder.save_checkpoint(k, save, keep=0)
    received.mkdir()
    (received / "state.json").write_text("the donor's")
    (received / OWNER_FILE).write_text(json.dumps({"number": 1, "iteration": 2, "values": {"learner.lr": 4e-4}}))
    start = _start(spec.config(new, 0), path, 0, new, received)
    assert start is not None and start.iteration == 2
    assert (start.path / "state.json").read_text() == "the donor's"
    assert [saved.iteration for saved in folder.checkpoints()] == [1, 2]
    assert folder.config().learner.lr == 5e-4
    (row,) = [json.loads(line) for line in (path / EXCHANGES_FILE).read_text().splitlines()]
    assert row == {"iteration": 2, "from": 1, "its_values": {"learner.lr": 4e-4}, "values": new}
    # Its own, after a pause: nothing is exchanged.
    (received / OWNER_FILE).write_text(json.dumps({"number": 0, "iteration": 1, "values": new}))
    start = _start(spec.config(new, 0), path, 0, new, received)
    assert start is not None and start.iteration == 1
    assert len((path / EXCHANGES_FILE).read_text().splitlines()) == 1
    assert _start(spec.config(new, 0), path, 0, new, None) is None and not path.exists()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sampler": "tpe"}, "sampler=tpe with scheduler=pbt, which chooses values itself; allowed: random"),
        ({"seeds": [0, 1]}, "whose members have a seed each"),
        ({"trials": 1}, "trials=1 with scheduler=pbt: a population has ≥ 2 members"),
        ({"max_concurrent": 1}, "max_concurrent=1 with scheduler=pbt: members take turns"),
        ({"space": {"env.max_turns": {"choice": [1, 2]}}}, "space.env.max_turns: env.max_turns cannot change while"),
        ({"space": {"credit.estimator": {"choice": ["grpo", "gae"]}}}, "credit.estimator cannot change while"),
        ({"scheduler": "pb2"}, "space.learner.clip_high: scheduler=pb2 needs numbers to fit"),
        ({"exchange_iterations": 3, "base": {"eval": {"interval": 2}}}, "multiples of eval.interval=2"),
    ],
)  # fmt: skip
def test_what_a_population_cannot_do_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_sweep({**POPULATION, **changes})
    assert said in str(caught.value)


def test_pb2_without_its_package_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rllib_ragen.sweep.spec.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="scheduler=pb2 needs the package scikit-learn"):
        read_sweep({**POPULATION, "scheduler": "pb2", "space": {"learner.lr": {"uniform": [1e-5, 1e-3]}}})
