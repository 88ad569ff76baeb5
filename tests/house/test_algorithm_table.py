"""The table of algorithms says what its recorded runs say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.algorithm_page import table, write_page
from benchmarks.algorithm_table import PAGE, recorded


def record(algorithm: str, filter_: str, seed: int, sampled: float, greedy: float) -> dict[str, Any]:
    reached = {"iterations": 24 + seed, "sampled": [0.25, sampled], "greedy": [0.125, greedy]}
    return {"env": "sokoban", "algorithm": algorithm, "filter": filter_, "seed": seed, "tokens": 100, **reached}


def test_a_row_is_mean_and_spread_over_seeds() -> None:
    records = [record("ppo", "none", 0, 0.5, 0.75), record("ppo", "none", 1, 0.75, 0.75)]
    lines = table("sokoban", [*records, record("grpo", "top_p", 0, 0.625, 1.0)]).splitlines()
    assert "Before training (T = 1 / greedy): 25.0 % / 12.5 %" in lines[2]
    assert lines[-1] == "| `ppo` | 62.5 ± 17.7 | 75.0 ± 0.0 | – | – | 24–25 | 0–2 |"
    assert lines[-2] == "| `grpo` | – | – | 62.5 | 100.0 | 24 | 0–1 |"


def test_the_page_shows_exactly_the_recorded_runs(tmp_path: Path) -> None:
    copy = tmp_path / "page.md"
    copy.write_text(PAGE.read_text())
    write_page(copy, list(recorded().values()))
    assert copy.read_text() == PAGE.read_text()
