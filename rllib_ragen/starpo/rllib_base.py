"""RLlib's evaluate/save/cleanup, implemented on the training runners."""

from __future__ import annotations

import logging
from abc import abstractmethod
from pathlib import Path

from ray.rllib.callbacks.utils import make_callback

from ragen_envs.tree import Tree
from rllib_ragen.faults.ending import within
from rllib_ragen.faults.private_names.of_ray import actor_manager
from rllib_ragen.faults.private_names.of_rllib import AlgorithmWithoutEvaluators

_STOP_S = 10.0
"""Time for env runners to close their environments and engines; one that needs more is killed."""
_CLEANUP_S = 30.0
"""Time for all actors to end: the env runners' own, Ray's patience with learners (5 s), and as much for a busy machine."""
logger = logging.getLogger(__name__)


class RLlibBase(AlgorithmWithoutEvaluators):
    """An algorithm that evaluates on its training runners and saves by itself."""

    @abstractmethod
    def evaluate_split(self, split: str, num_instances: int, greedy: bool) -> dict[str, float]:
        """Plays instances of a split."""

    def evaluate(self, parallel_train_future: object = None) -> Tree:
        """`evaluation_duration` validation instances, greedy and at the training temperature."""
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
        """RLlib's newer name for `save`."""
        if path is None:
            raise ValueError("save_to_path: say where to")
        Path(path).mkdir(parents=True, exist_ok=True)
        self.save_checkpoint(str(path))
        return str(path)

    def restore_from_path(self, path: str | Path, *args: object, **kwargs: object) -> None:
        """RLlib's newer name for `restore`."""
        self.load_checkpoint(str(path))

    def cleanup(self) -> None:
        """Ends all actors, hung ones too, in a limited time; what is left then, Ray ends with the driver."""
        if not within(_CLEANUP_S, self._end_actors):
            logger.warning("not all actors have ended within %g s", _CLEANUP_S)

    def _end_actors(self) -> None:
        runners = getattr(self, "env_runner_group", None)
        if runners is not None:
            runners.foreach_env_runner(lambda runner: runner.stop(), local_env_runner=False, timeout_seconds=_STOP_S)
            # RLlib would wait for all of them to stop.
            actor_manager(runners).clear()
        super().cleanup()
