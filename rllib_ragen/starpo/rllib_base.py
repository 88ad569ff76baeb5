"""RLlib's evaluate/save/cleanup, implemented on the training runners."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Any

from ray.rllib.callbacks.utils import make_callback

from rllib_ragen.faults.private_names.of_ray import actor_manager
from rllib_ragen.faults.private_names.of_rllib import AlgorithmWithoutEvaluators

_STOP_S = 10.0
"""For env runners to close their environments and engines."""


class RLlibBase(AlgorithmWithoutEvaluators):
    """An algorithm that evaluates on its training runners and saves by itself."""

    @abstractmethod
    def evaluate_split(self, split: str, num_instances: int, greedy: bool) -> dict[str, float]:
        """Plays instances of a split."""

    def evaluate(self, parallel_train_future: Any = None) -> dict[str, Any]:
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

    def save_to_path(self, path: str | Path | None = None, **kwargs: Any) -> str:
        """RLlib's newer name for `save`."""
        if path is None:
            raise ValueError("save_to_path: say where to")
        Path(path).mkdir(parents=True, exist_ok=True)
        self.save_checkpoint(str(path))
        return str(path)

    def restore_from_path(self, path: str | Path, *args: Any, **kwargs: Any) -> None:
        """RLlib's newer name for `restore`."""
        self.load_checkpoint(str(path))

    def cleanup(self) -> None:
        """Ends all actors, hung ones too."""
        runners = getattr(self, "env_runner_group", None)
        if runners is not None:
            runners.foreach_env_runner(lambda runner: runner.stop(), local_env_runner=False, timeout_seconds=_STOP_S)
            # RLlib would wait for all of them to stop.
            actor_manager(runners).clear()
        super().cleanup()
