"""TensorBoard beside the curves: regimes and times as figures, trajectories as text that nobody can break out of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rllib_ragen.run.trackers.tensorboard import TensorBoardTracker, as_text, regime_figure, time_figure
from rllib_ragen.run.trackers.tracker import TrackedRun

HOSTILE = (
    "<script>alert(1)</script>\n# heading\n\u2028[link](http://example.invalid)\n```\n![](http://example.invalid/x)"
)


def rows(count: int = 5) -> list[dict[str, Any]]:
    measured = {"conditional_entropy_token": 0.3, "information_share": 0.7, "regime": 1.0}
    found: list[dict[str, Any]] = []
    for i in range(1, count + 1):
        row = {"iteration": i, "time_rollout_s": 2.0, "time_update_s": 1.0, "time_diagnostics_s": 0.5}
        due = {f"{sample}_{name}": value for sample in ("first_turn", "any_turn") for name, value in measured.items()}
        found.append({**row, **(due if i % 2 else dict.fromkeys(due))})
    return found


def test_a_run_is_a_picture_text_and_curves(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board = TensorBoardTracker(TrackedRun(tmp_path, {}, 0, None, rows, None))
    board.log(3, {"rollout/success": 0.5})
    board.figures(3, rows())
    turn = {"prompt": "#P#", "reply": HOSTILE, "reward": 1.0}
    board.log_trajectories(3, [{"group_id": "7", "return": 1.0, "stop_reason": "goal", "turns": [turn]}])
    board.close()
    seen = EventAccumulator(str(tmp_path / "tensorboard"))
    seen.Reload()
    assert seen.Tags()["scalars"] == ["rollout/success"]
    assert sorted(seen.Tags()["images"]) == ["regime/any_turn", "regime/first_turn", "time/of_an_iteration"]
    image = seen.Images("time/of_an_iteration")[0]
    assert image.encoded_image_string.startswith(b"\x89PNG") and image.width > 300
    assert seen.Tags()["tensors"] == ["trajectory/text_summary"]


def test_each_of_several_environments_has_its_regimes(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    plain = rows()
    of_two = [{**dict.fromkeys(row), **{f"{label}/{name}": value for label in "ab" for name, value in row.items()}}
              | {"iteration": row["iteration"], "time_rollout_s": 2.0} for row in plain]  # fmt: skip
    board = TensorBoardTracker(TrackedRun(tmp_path, {}, 0, None, lambda: of_two, None))
    board.figures(5, of_two)
    board.close()
    seen = EventAccumulator(str(tmp_path / "tensorboard"))
    seen.Reload()
    regimes = [f"{label}/regime/{sample}" for label in "ab" for sample in ("any_turn", "first_turn")]
    assert sorted(seen.Tags()["images"]) == [*regimes, "time/of_an_iteration"]


def test_every_line_of_a_reply_is_code() -> None:
    turn = {"prompt": HOSTILE, "reply": HOSTILE, "reward": -1.0}
    text = as_text({"group_id": "7", "return": -1.0, "stop_reason": "max_turns", "turns": [turn]})
    plain = [line for line in text.splitlines() if line and not line.startswith("    ")]
    assert plain == ["group 7, return -1, max_turns", "turn 1, reward -1", "reply"]


def test_a_very_long_reply_is_cut_and_says_so() -> None:
    turn = {"prompt": "Turn 1", "reply": "a" * 1_000_000, "reward": -1.0}
    text = as_text({"group_id": "7", "return": -1.0, "stop_reason": "max_turns", "turns": [turn]})
    assert text.endswith("\n\n… 980,000 more characters in trajectories.jsonl") and len(text) < 21_000


def test_figures_show_what_was_measured() -> None:
    (axes,) = regime_figure(rows(), "first_turn").axes
    (points,) = axes.collections
    np.testing.assert_allclose(np.asarray(points.get_offsets(), np.float64), np.array([[0.3, 0.7]] * 3))
    legend = axes.get_legend()
    assert legend is not None and legend.get_texts()[0].get_text() == "diverse reasoning"
    (axes,) = time_figure(rows()).axes
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["rollout", "update", "diagnostics", "sync"]
    assert axes.get_ylim()[1] == pytest.approx(3.5, rel=0.1)
