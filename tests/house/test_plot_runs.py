"""The README's picture: what is read from run folders and what is drawn."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.plot_runs import main, mean_curve, read_curves, spaced

PNG = b"\x89PNG\r\n\x1a\n"


def run_folder(folder: Path, success: dict[int, float], seconds_per_iteration: float) -> Path:
    folder.mkdir()
    rows: list[dict[str, object]] = []
    for iteration in range(max(success) + 1):
        if iteration:
            rows.append({"iteration": iteration, "success": 0.5, "time_s": iteration * seconds_per_iteration})
        if iteration in success:
            for greedy in (False, True):
                value = success[iteration] + 0.1 * greedy
                rows.append({"iteration": iteration, "split": "val", "greedy": greedy, "success": value})
    (folder / "progress.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_curves_are_in_percent_and_minutes_and_the_newest_row_counts(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "a", {0: 0.25, 2: 0.5}, 30)
    with (folder / "progress.jsonl").open("a") as file:
        file.write(json.dumps({"iteration": 2, "split": "val", "greedy": False, "success": 0.75}) + "\n")
    curves = read_curves(folder, "val", "time_s")
    assert curves[False].success.tolist() == [25, 75] and curves[True].success.tolist() == [35, 60]
    assert curves[False].minutes.tolist() == [0, 1] and curves[False].iterations.tolist() == [0, 2]


def test_mean_is_over_iterations_that_every_seed_has(tmp_path: Path) -> None:
    folders = [
        run_folder(tmp_path / "a", {0: 0.2, 2: 0.4, 4: 0.9}, 60),
        run_folder(tmp_path / "b", {0: 0.4, 2: 0.8}, 90),
    ]
    curves = [read_curves(folder, "val", "time_s")[False] for folder in folders]
    x, mean, spread = mean_curve(curves, "minutes")
    assert x.tolist() == [0, 2.5]
    assert mean == pytest.approx([30, 60])
    assert spread == pytest.approx([20 / np.sqrt(2), 40 / np.sqrt(2)])  # ddof = 1


def test_labels_do_not_overlap_and_keep_their_order() -> None:
    assert spaced([9.0, 6.0, 50.0], gap=5.0) == [11.0, 6.0, 50.0]


@pytest.mark.parametrize("axis", ["minutes", "iterations"])
def test_draws_one_png(tmp_path: Path, axis: str, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [str(run_folder(tmp_path / name, {0: 0.2, 2: 0.4}, 60)) for name in "ab"]
    out = tmp_path / "docs" / "picture.png"
    assert (
        main(
            [
                *folders,
                "--out",
                str(out),
                "--x",
                axis,
                "--floor",
                "6",
                "--blind",
                "9",
                "--ceiling",
                "97",
                "--forced",
                "30",
            ]
        )
        == 0
    )
    assert out.read_bytes().startswith(PNG)
    assert capsys.readouterr().out.strip() == str(out)


def test_bad_input_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["--out", str(tmp_path / "x.png")]
    assert main([str(tmp_path), *out]) == 2
    assert "has no progress.jsonl" in capsys.readouterr().err
    folder = run_folder(tmp_path / "a", {0: 0.2, 2: 0.4}, 60)
    assert main([str(folder), *out, "--split", "test"]) == 2
    assert "no rows of split 'test'" in capsys.readouterr().err
    assert main([str(folder), *out, "--time-key", "seconds"]) == 2
    assert "--time-key" in capsys.readouterr().err
