"""What a run writes as it goes: progress.jsonl, progress.csv, sampled trajectories, alarms, and what trackers get."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ragen_envs.tree import Tree
from rllib_ragen.diagnostics.metrics import heading_of
from rllib_ragen.run.trackers.tracker import Tracker
from rllib_ragen.run.trajectory_sample import sample_records
from rllib_ragen.types import FloatArray, Trajectory

Row = Tree


class RunLog:
    """Appends `measured` metrics to a run folder's logs.

    Training rows hold `iteration`, `time_s` and the metrics of one iteration; evaluation rows `iteration`, `split`,
    `greedy`, the results, and `instances`: the mean success of each distinct one, by a digest of its key.
    """

    def __init__(self, folder: Path, start: int = 0) -> None:
        """Opens the logs of a run that goes on after iteration `start`; what was logged later will be done again."""
        self._progress = folder / "progress.jsonl"
        self._csv = folder / "progress.csv"
        self._trajectories = folder / "trajectories.jsonl"
        self._alarms = folder / "alarms.jsonl"
        self._columns: list[str] = []
        for path in (self._progress, self._trajectories, self._alarms):
            _rewrite(path, lambda row: row["iteration"] <= start)
        self._write_csv(self.training_rows())
        self.trackers: list[Tracker] = []
        """Listeners to everything that is logged from now on."""

    def rows(self) -> list[Row]:
        """Returns all rows so far."""
        if not self._progress.exists():
            return []
        return [json.loads(line) for line in self._progress.open(encoding="utf-8")]

    def training_rows(self) -> list[Row]:
        """Returns the rows of iterations so far."""
        return [row for row in self.rows() if "split" not in row]

    def train(
        self,
        iteration: int,
        time_s: float,
        metrics: Mapping[str, object],
        sampled: Sequence[Trajectory],
        advantages: Sequence[FloatArray | None],
    ) -> Row:
        """Logs one iteration: its metrics, and a few of its trajectories with their advantages → the row."""
        row = {"iteration": iteration, "time_s": round(time_s, 3), **metrics}
        _append(self._progress, [row])
        self._append_csv(row)
        records = sample_records(sampled, advantages)
        _append(self._trajectories, [{"iteration": iteration, **record} for record in records])
        policies = {trajectory.module_id for trajectory in sampled}
        tags = {f"{heading_of(name, policies)}/{name.rpartition('/')[2]}": value for name, value in metrics.items()}
        self._track(iteration, tags)
        if records:
            for tracker in self.trackers:
                tracker.log_trajectories(iteration, records)
        return row

    def alarm(self, alarm: Row) -> None:
        """Logs an alarm as a row of alarms.jsonl."""
        _append(self._alarms, [alarm])

    def evaluation(
        self, iteration: int, split: str, greedy: bool, result: Mapping[str, object], instances: Mapping[str, float]
    ) -> Row:
        """Logs one evaluation, with the success on each of its instances → the row."""
        row = {"iteration": iteration, "split": split, "greedy": greedy, **result, "instances": dict(instances)}
        _append(self._progress, [row])
        way = "greedy" if greedy else "sampled"
        self._track(iteration, {_tag(f"{split}_{way}", name): value for name, value in result.items()})
        return row

    def close(self) -> None:
        """Closes what the trackers have open."""
        for tracker in self.trackers:
            tracker.close()

    def _track(self, iteration: int, values: Mapping[str, object]) -> None:
        numbers = {name: float(value) for name, value in values.items() if isinstance(value, (int, float))}
        for tracker in self.trackers:
            tracker.log(iteration, numbers)

    def _append_csv(self, row: Row) -> None:
        """Appends a row; a new metric adds a column, for which the file is rewritten."""
        if not set(row) <= set(self._columns):
            self._write_csv(self.training_rows())
            return
        with self._csv.open("a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, self._columns).writerow(row)

    def _write_csv(self, rows: Sequence[Row]) -> None:
        self._columns = list(dict.fromkeys(name for row in rows for name in row))
        with self._csv.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, self._columns)
            writer.writeheader()
            writer.writerows(rows)


def _tag(heading: str, name: str) -> str:
    """Returns an evaluation's tag for trackers: one of several environments has a heading of its own."""
    label, slash, rest = name.partition("/")
    return f"{label}/{heading}/{rest}" if slash else f"{heading}/{name}"


def _append(path: Path, rows: Sequence[Row]) -> None:
    # What UTF-8 cannot hold, a lone surrogate, is written as the escape that JSON has for it.
    with path.open("a", encoding="utf-8", errors="backslashreplace") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _rewrite(path: Path, keep: Callable[[Row], bool]) -> None:
    """Rewrites a file with the rows that `keep` accepts, without a last line that a crash cut off."""
    if not path.exists():
        return
    kept = []
    for line in path.open(encoding="utf-8"):  # splitlines() would also split at a reply's U+2028
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        if keep(row):
            kept.append(line)
    path.write_text("".join(kept), encoding="utf-8")
