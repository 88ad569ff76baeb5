"""Tune's side of the study: hands out (configuration, seed) pairs and reports what became of them."""

from __future__ import annotations

import json
from pathlib import Path

from ray.tune.search import Searcher

from ragen_envs.tree import Tree
from rllib_ragen.sweep.place import driven
from rllib_ragen.sweep.spec import SweepSpec
from rllib_ragen.sweep.study import SweepStudy, result_of


class StudySearch(Searcher):
    """A Tune search algorithm on a SweepStudy.

    The study's file is the truth. Tune's own snapshot may be older than it when a driver is killed: pairs that were
    handed out after the snapshot are unknown to Tune, and are handed out again.
    """

    def __init__(self, spec: SweepSpec) -> None:
        super().__init__(metric=spec.objectives[0], mode="max")
        self._spec = spec
        self._study: SweepStudy | None = None
        self._queue: list[tuple[int, int]] | None = None
        self._known: set[str] = set()
        """Ids that Tune knows of."""

    @property
    def study(self) -> SweepStudy:
        """Opened at first use: Tune pickles this object."""
        if self._study is None:
            self._study = SweepStudy(self._spec, driven())
        return self._study

    def __getstate__(self) -> Tree:
        return self.__dict__ | {"_study": None}

    def set_search_properties(self, metric: str | None, mode: str | None, config: Tree, **spec: object) -> bool:
        """Takes nothing: the study has its own space."""
        return True

    def suggest(self, trial_id: str) -> Tree | str | None:
        """Returns the next run: its whole config, and which configuration of the study it is."""
        if self._queue is None:
            self._queue = self._lost()
        if not self._queue:
            if self.study.num_asked >= self._spec.num_trials:
                finished: str = Searcher.FINISHED
                return finished
            number = self.study.ask().number
            self._queue = [(number, seed) for seed in self._spec.seeds]
        number, seed = self._queue.pop(0)
        self.study.assign(number, seed, trial_id)
        self._known.add(trial_id)
        return {"number": number, "seed": seed, "values": self.study.trial(number).params}

    def on_trial_result(self, trial_id: str, result: Tree) -> None:
        """Does nothing: schedulers look at Tune's results themselves."""

    def on_trial_complete(self, trial_id: str, result: Tree | None = None, error: bool = False) -> None:
        """Notes that a run is over: done, stopped early, or failed for good."""
        number, seed = self.study.assigned()[trial_id]
        row = result or {}
        stopped = str(row.get("stopped", ""))
        if not error and not row.get("finished"):
            stopped = f"scheduler {self._spec.scheduler} at iteration {row.get('iteration', 0)}"
        self.study.tell(
            number,
            seed,
            result_of(row, self._spec, stopped, f"crashed; see tune/{trial_id}/error.txt" if error else ""),
        )

    def save(self, checkpoint_path: str) -> None:
        """Saves what Tune knows at this moment."""
        Path(checkpoint_path).write_text(json.dumps(sorted(self._known)))

    def restore(self, checkpoint_path: str) -> None:
        """Restores what Tune knew when it was saved."""
        self._known = set(json.loads(Path(checkpoint_path).read_text()))
        self._queue = None

    def _lost(self) -> list[tuple[int, int]]:
        """Returns pairs of unfinished configurations that no run known to Tune plays."""
        played = {pair for run_id, pair in self.study.assigned().items() if run_id in self._known}
        return [pair for pair in self.study.to_play() if pair not in played]
