"""RLlib's doors, from evaluate to cleanup, implemented on the training runners; and a policy's voice."""

from __future__ import annotations

import logging
import tempfile
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Any, Self

from ray.rllib.callbacks.utils import make_callback
from ray.rllib.utils.metrics import ENV_RUNNER_RESULTS
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

from ragen_envs.tree import Tree
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.faults.ending import within
from rllib_ragen.faults.private_names.of_ray import actor_manager
from rllib_ragen.models.weight_arrays import WeightState
from rllib_ragen.rollout.trajectory_files import write_trajectories
from rllib_ragen.starpo.chat import Chat
from rllib_ragen.starpo.checkpoint.manifest import read_manifest
from rllib_ragen.starpo.config import StarPOConfig
from rllib_ragen.starpo.rllib_methods import RefusedMethods
from rllib_ragen.starpo.rollouts import Rollouts
from rllib_ragen.types import Trajectory

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


class RLlibBase(RefusedMethods):
    """An algorithm that evaluates on its training runners, saves by itself, and logs under `METRICS`."""

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

    evaluation_metrics: list[Any]
    """Runners' metrics of the last evaluation, reduced."""
    _rollouts: Rollouts

    @property
    @abstractmethod
    def trained_ids(self) -> list[str]:
        """Policies that learn, the main one first."""

    @abstractmethod
    def evaluate_split(self, split: str, num_instances: int, greedy: bool, env: str | None = None) -> dict[str, float]:
        """Plays instances of a split."""

    def evaluate(self, parallel_train_future: object = None) -> Tree:
        """Plays `evaluation_duration` validation instances, at `eval.temperature` and greedy.

        Returns:
            `evaluate_split` of both as `sampled` and `greedy`; and as `env_runners` RLlib's own metrics
            (`episode_return_mean`, what callbacks have logged) of the one that `explore` asks for: by default the
            first, with `evaluation(evaluation_config={"explore": False})` the second.
        """
        config = self.config
        kwargs = {"algorithm": self, "metrics_logger": self.metrics}
        make_callback("on_evaluate_start", self.callbacks, config.callbacks_on_evaluate_start, kwargs=kwargs)
        results: Tree = {}
        for name, greedy in (("sampled", False), ("greedy", True)):
            results[name] = self.evaluate_split("val", config.evaluation_duration, greedy)
            if greedy != bool(self.evaluation_config.explore):
                own = MetricsLogger(stats_cls_lookup=config.stats_cls_lookup, root=True)
                own.aggregate(self.evaluation_metrics)
                results[ENV_RUNNER_RESULTS] = own.reduce(compile=True)
        kwargs["evaluation_metrics"] = results
        make_callback("on_evaluate_end", self.callbacks, config.callbacks_on_evaluate_end, kwargs=kwargs)
        return results

    @abstractmethod
    def _sync_weights(self) -> None:
        """Gives the runners the learners' weights."""

    def set_weights(self, weights: Mapping[str, WeightState]) -> None:
        """Gives policies the weights that `get_weights` returned, on learners and runners."""
        self.learner_group.set_weights(weights)
        self._sync_weights()

    def chat(
        self,
        messages: Sequence[Mapping[str, str]],
        policy: str | None = None,
        *,
        greedy: bool = False,
        seed: int = 0,
    ) -> str:
        """Returns a policy's reply to a conversation: the way to act with it outside of its environments.

        It is sampled by the engine of a runner, with the weights that the next iteration would play with. To go on,
        add the reply as an assistant's message.

        Args:
            messages: {"role": "system", "user" or "assistant", "content": text} each; the last is a user's.
            policy: its id; None: the main one.
            greedy: the likeliest token always, instead of sampling at `temperature`.
            seed: of the sampling; the same one and the same messages give the same reply.

        Raises:
            ValueError: no such policy, or messages that are none or leave no room for a reply; one sentence.
        """
        return self._chat.reply(messages, policy or self.trained_ids[0], greedy=greedy, seed=seed)

    @cached_property
    def _chat(self) -> Chat:
        return Chat(self.config, self._rollouts)

    def _tell_recreated(self, runners: list[int]) -> None:
        """Tells callbacks of restarted runners that came back within an iteration; between two, RLlib does."""
        group = self.env_runner_group
        kwargs = {"env_runner_group": group, "env_runner_indices": runners, "is_evaluation": False}
        told = self.config.callbacks_on_env_runners_recreated
        make_callback("on_env_runners_recreated", self.callbacks, told, kwargs={"algorithm": self, **kwargs})

    def _write_output(self, iteration: int, trajectories: Sequence[Trajectory]) -> None:
        """Writes a batch where `offline_data(output=…)` says; every trial of Tune has a folder of its own there."""
        output = self.config.to_run_config().offline.output
        if output is not None:
            write_trajectories(Path(output, self.config.trial_id), iteration, trajectories)

    @classmethod
    def from_checkpoint(cls, path: Any, filesystem: Any = None, *, config: StarPOConfig | None = None) -> Self:
        """Builds the checkpoint's run, or `config` in its place, and continues.

        RLlib's own `Algorithm.from_checkpoint` reads pickles; on this folder it says to come here (checkpoint/save.py).

        Raises:
            ValueError: no complete checkpoint.
        """
        refuse_arguments("from_checkpoint", {"filesystem": filesystem})
        folder = Path(getattr(path, "path", path))
        if config is None:
            config = StarPOConfig.from_run_config(RunConfig.model_validate(read_manifest(folder)["config"]))
        algorithm: Self = config.build_algo()
        algorithm.load_checkpoint(str(folder))
        return algorithm

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
