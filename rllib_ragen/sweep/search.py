"""Tune's search algorithm on the study: hands out (configuration, seed) pairs and reports their results."""

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

    The study's file is authoritative. Tune's snapshot may be older when a driver is killed: pairs that were handed out
    after it are unknown to Tune, and are handed out again.
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
        """The study, opened at first use because Tune pickles this object."""
        if self._study is None:
            self._study = SweepStudy(self._spec, driven())
        return self._study

    def __getstate__(self) -> Tree:
        return self.__dict__ | {"_study": None}

    def set_search_properties(self, metric: str | None, mode: str | None, config: Tree, **spec: object) -> bool:
        """Accepts nothing, because the study has its own space."""
        return True

    def suggest(self, trial_id: str) -> Tree | str | None:
        """Returns the next run: number and values of its configuration, and its seed."""
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
        """Does nothing: schedulers read Tune's results themselves."""

    def on_trial_complete(self, trial_id: str, result: Tree | None = None, error: bool = False) -> None:
        """Records that a run is over: done, stopped early, or failed for good."""
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
        """Saves the runs that Tune knows."""
        Path(checkpoint_path).write_text(json.dumps(sorted(self._known)))

    def restore(self, checkpoint_path: str) -> None:
        """Restores the runs that Tune knew when it was saved."""
        self._known = set(json.loads(Path(checkpoint_path).read_text()))
        self._queue = None

    def _lost(self) -> list[tuple[int, int]]:
        """Returns the unfinished (configuration, seed) pairs without a run that Tune knows."""
        played = {pair for run_id, pair in self.study.assigned().items() if run_id in self._known}
        return [pair for pair in self.study.to_play() if pair not in played]
