"""The study on disk: seeds are one trial, failures are remembered, and a killed driver loses nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import optuna
import pytest

from rllib_ragen.config.errors import ConfigError
from rllib_ragen.sweep.place import drive
from rllib_ragen.sweep.search import StudySearch
from rllib_ragen.sweep.spec import SweepSpec, read_sweep
from rllib_ragen.sweep.study import SweepStudy, result_of
from rllib_ragen.sweep.table import SweepTable


def make_spec(**changes: Any) -> SweepSpec:
    given = {
        "name": "study",
        "base": {"env": {"name": "bandit"}},
        "space": {"learner.lr": {"choice": [1e-4, 2e-4, 3e-4]}},
        "sampler": "grid",
        "seeds": [5, 6],
    }
    return read_sweep(given | changes)


def row(success: float, **more: Any) -> dict[str, Any]:
    return {"success": success, "iteration": 10, "finished": True, **more}


def test_seeds_of_a_configuration_are_one_trial_with_mean_and_spread(tmp_path: Path) -> None:
    spec = make_spec()
    study = SweepStudy(spec, tmp_path)
    number = study.ask().number
    study.tell(number, 5, result_of(row(0.4), spec))
    assert not study.finished()
    study.tell(number, 6, result_of(row(0.6), spec))
    study.tell(number, 6, result_of(row(0.9), spec))
    (trial,) = study.finished()
    assert trial.value == pytest.approx(0.5)
    assert trial.user_attrs["spread:success"] == pytest.approx(0.2 / 2**0.5)
    loaded = optuna.load_study(study_name="study", storage=f"sqlite:///{tmp_path / 'study.db'}")
    assert loaded.best_params == {"learner.lr": 1e-4}, "Optuna's own tools read it"


def test_a_failed_run_fails_its_configuration_and_says_why(tmp_path: Path) -> None:
    spec = make_spec()
    study = SweepStudy(spec, tmp_path)
    number = study.ask().number
    study.tell(number, 5, result_of(row(0.4), spec))
    study.tell(number, 6, result_of({}, spec, error="crashed"))
    assert not study.finished() and not study.best()
    assert study.trial(number).state == optuna.trial.TrialState.FAIL
    assert SweepTable(study, spec).rows()[0][-1] == "crashed"


def test_a_grid_is_tried_once_whole_and_then_over(tmp_path: Path) -> None:
    drive(tmp_path)
    search = StudySearch(make_spec(trials=50))
    runs = {f"r{k}": search.suggest(f"r{k}") for k in range(7)}
    assert runs.pop("r6") == StudySearch.FINISHED
    assert [(run["number"], run["seed"]) for run in runs.values() if isinstance(run, dict)] == [
        *((0, 5), (0, 6), (1, 5)),
        *((1, 6), (2, 5), (2, 6)),
    ]


def test_R3_what_was_handed_out_after_tunes_snapshot_is_handed_out_again(tmp_path: Path) -> None:
    spec = make_spec()
    drive(tmp_path)
    before = StudySearch(spec)
    before.suggest("a")
    before.save(str(tmp_path / "snapshot"))
    before.suggest("b")
    before.on_trial_complete("a", row(0.5))
    # The driver is killed here: Tune remembers `a` only.
    after = StudySearch(spec)
    after.restore(str(tmp_path / "snapshot"))
    after.on_trial_complete("a", row(0.5))
    again = after.suggest("c")
    assert isinstance(again, dict) and (again["number"], again["seed"]) == (0, 6)
    after.on_trial_complete("c", row(0.7))
    (trial,) = after.study.finished()
    assert trial.value == pytest.approx(0.6)
    following = after.suggest("d")
    assert isinstance(following, dict) and (following["number"], following["seed"]) == (1, 5)


def test_early_stops_are_in_the_trials_record(tmp_path: Path) -> None:
    spec = make_spec(scheduler="asha")
    drive(tmp_path)
    search = StudySearch(spec)
    for name in "abcd":
        search.suggest(name)
    search.on_trial_complete("a", row(0.5, finished=False, iteration=20))
    search.on_trial_complete("b", row(0.5))
    search.on_trial_complete("c", row(0.1, stopped="alarm entropy_collapse (iteration 7)"))
    search.on_trial_complete("d", row(0.2))
    notes = [cells[-1] for cells in SweepTable(search.study, spec).rows()]
    assert notes == ["scheduler asha at iteration 20", "alarm entropy_collapse (iteration 7)"]


def test_a_study_of_another_space_is_refused(tmp_path: Path) -> None:
    SweepStudy(make_spec(), tmp_path)
    other = make_spec(space={"learner.lr": {"choice": [1.0]}})
    with pytest.raises(ConfigError, match="has another space"):
        SweepStudy(other, tmp_path)


def test_the_table_has_the_best_first_and_csv_has_exact_numbers(tmp_path: Path) -> None:
    spec = make_spec(objectives=["reply_tokens"], seeds=[0])
    study = SweepStudy(spec, tmp_path)
    for tokens in (20.123456, 10.5, 30.0):
        study.tell(study.ask().number, 0, result_of({"reply_tokens": tokens}, spec))
    table = SweepTable(study, spec)
    assert [cells[0] for cells in table.rows()] == ["1", "0", "2"], "fewer tokens are better"
    assert study.best()[0].number == 1
    table.write_csv(tmp_path / "trials.csv")
    assert "20.123456" in (tmp_path / "trials.csv").read_text()


def test_two_objectives_leave_those_that_none_is_better_than_in_both(tmp_path: Path) -> None:
    spec = make_spec(objectives=["success", "reply_tokens"], seeds=[0])
    study = SweepStudy(spec, tmp_path)
    for success, tokens in ((0.5, 20.0), (0.7, 40.0), (0.4, 30.0)):
        study.tell(study.ask().number, 0, result_of(row(success, reply_tokens=tokens), spec))
    assert {trial.number for trial in study.best()} == {0, 1}, "the third is worse than the first in both"
    loaded = optuna.load_study(study_name="study", storage=f"sqlite:///{tmp_path / 'study.db'}")
    assert [direction.name for direction in loaded.directions] == ["MAXIMIZE", "MINIMIZE"]
