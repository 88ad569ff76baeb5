"""The information diagnostics, measured with the learners' weights in iterations that are due."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial

from ray.rllib.core.learner.learner_group import LearnerGroup

from ragen_envs.seeds import Stream
from rllib_ragen.diagnostics.information_probe import is_due, probe, probe_metric_names
from rllib_ragen.learner.thought_scorer import score_on_learners
from rllib_ragen.models.chat_format import ChatFormat
from rllib_ragen.starpo.config import StarPOConfig
from rllib_ragen.starpo.counters import Counters
from rllib_ragen.types import Trajectory


class InformationProbe:
    """The measurement of H(Z|X) and I(X;Z) of one policy's thoughts (`diagnostics.information`)."""

    def __init__(self, config: StarPOConfig, learners: LearnerGroup, module_id: str) -> None:
        self._config = config
        self._section = config.diagnostics_section()
        self._learners = learners
        self._module_id = module_id

    def metrics(self, alive: Sequence[Trajectory], counters: Counters) -> dict[str, float]:
        """Measures a batch without its failed trajectories; NaN in iterations that are not due."""
        if not is_due(self._section.interval, counters.iteration):
            return dict.fromkeys(probe_metric_names(), float("nan"))
        metrics, counters.std_ema = probe(
            [trajectory for trajectory in alive if trajectory.module_id == self._module_id],
            self._section,
            score=partial(score_on_learners, self._learners, self._module_id),
            decode=self._chat.reply_text,
            seed=[Stream.PROBE, self._config.seed, counters.iteration],
            std_ema=counters.std_ema,
        )
        return metrics

    @cached_property
    def _chat(self) -> ChatFormat:
        return self._config.chat_format()
