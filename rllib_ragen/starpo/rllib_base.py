"""RLlib's evaluate/save/cleanup, implemented on the training runners."""

from __future__ import annotations

import logging
import tempfile
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from time import perf_counter

from ray.rllib.callbacks.utils import make_callback

from ragen_envs.tree import Tree
from rllib_ragen.faults.ending import within
from rllib_ragen.faults.private_names.of_ray import actor_manager
from rllib_ragen.faults.private_names.of_rllib import AlgorithmWithoutEvaluators

METRICS = "starpo"
"""Key of StarPO's metrics in a result dict."""
_STOP_S = 10.0
"""Seconds for env runners to close their environments and engines before they are killed: chosen freely."""
_CLEANUP_S = 30.0
"""Seconds for all actors to end: the env runners' 10, Ray's 5 for learners, and as much again for a busy machine."""
logger = logging.getLogger(__name__)


def refuse_arguments(method: str, given: Mapping[str, object]) -> None:
    """Raises ValueError if RLlib's method was `given` arguments without meaning here: a part, a state, a file system.

    `filesystem=None`, `component=None` and the like are RLlib's defaults.
    """
    for name, value in given.items():
        if value:
            raise ValueError(
                f"{method}({name}=…): a StarPO checkpoint is written and read whole, as safetensors and JSON in a"
                f" folder that is mounted here; leave {name} out"
            )


class RLlibBase(AlgorithmWithoutEvaluators):
    """An algorithm that evaluates on its training runners, saves in its own format, and logs under `METRICS`."""

    @cached_property
    def _times(self) -> dict[str, float]:
        """Seconds of the iteration's parts by name."""
        return {}

    def _log(self, metrics: Mapping[str, float]) -> None:
        for name, value in metrics.items():
            self.metrics.log_value((METRICS, name), value, reduce="mean", window=1)

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        start = perf_counter()
        try:
            yield
        finally:
            self._times[name] = perf_counter() - start

    @abstractmethod
    def evaluate_split(self, split: str, num_instances: int, greedy: bool) -> dict[str, float]:
        """Plays instances of a split."""

    def evaluate(self, parallel_train_future: object = None) -> Tree:
        """Evaluates on `evaluation_duration` validation instances, greedy and at the training temperature."""
        config = self.config
        kwargs = {"algorithm": self, "metrics_logger": self.metrics}
        make_callback("on_evaluate_start", self.callbacks, config.callbacks_on_evaluate_start, kwargs=kwargs)
        results = {
            name: self.evaluate_split("val", config.evaluation_duration, greedy)
            for name, greedy in (("sampled", False), ("greedy", True))
        }
        kwargs["evaluation_metrics"] = results
        make_callback("on_evaluate_end", self.callbacks, config.callbacks_on_evaluate_end, kwargs=kwargs)
        return results

    def save_to_path(self, path: str | Path | None = None, **kwargs: object) -> str:
        """Saves a checkpoint, as `save` → its folder, a new temporary one without `path`.

        Raises:
            ValueError: one of RLlib's further arguments.
        """
        refuse_arguments("save_to_path", kwargs)
        folder = Path(tempfile.mkdtemp() if path is None else path)
        folder.mkdir(parents=True, exist_ok=True)
        self.save_checkpoint(str(folder))
        return str(folder)

    def restore_from_path(self, path: str | Path, **kwargs: object) -> None:
        """Restores a checkpoint, as `restore`.

        Raises:
            ValueError: one of RLlib's further arguments; no complete checkpoint.
        """
        refuse_arguments("restore_from_path", kwargs)
        self.load_checkpoint(str(path))

    def cleanup(self) -> None:
        """Ends all actors, also hung ones, within a limited time; Ray ends the rest with the driver."""
        if not within(_CLEANUP_S, self._end_actors):
            logger.warning("not all actors have ended within %g s", _CLEANUP_S)

    def _end_actors(self) -> None:
        runners = getattr(self, "env_runner_group", None)
        if runners is not None:
            runners.foreach_env_runner(lambda runner: runner.stop(), local_env_runner=False, timeout_seconds=_STOP_S)
            # RLlib would wait for all of them to stop.
            actor_manager(runners).clear()
        super().cleanup()
