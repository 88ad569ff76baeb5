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
    """H(Z|X) and I(X;Z) of one policy's thoughts (`diagnostics.information`).

    Of several environments each is measured by itself, as `<label>/…`: over all prompts together a thought that tells
    no more than which environment it is in would count as information.
    """

    def __init__(self, config: StarPOConfig, learners: LearnerGroup, module_id: str) -> None:
        self._config = config
        self._section = config.diagnostics_section()
        self._learners = learners
        self._module_id = module_id

    def metrics(self, alive: Sequence[Trajectory], counters: Counters) -> dict[str, float]:
        """Measures a batch without its failed trajectories; NaN in iterations that are not due."""
        if not is_due(self._section.interval, counters.iteration):
            prefixes = ["", *(f"{label}/" for label in self._chats if label)]
            return {f"{prefix}{name}": float("nan") for prefix in prefixes for name in probe_metric_names()}
        own = [trajectory for trajectory in alive if trajectory.module_id == self._module_id]
        found = {} if "" in self._chats else dict.fromkeys(probe_metric_names(), float("nan"))
        running: dict[str, float] = {}
        for number, (label, chat) in enumerate(self._chats.items()):
            prefix = f"{label}/" if label else ""
            before = {key.removeprefix(prefix): std for key, std in counters.std_ema.items() if key.startswith(prefix)}
            metrics, after = probe(
                [trajectory for trajectory in own if trajectory.env == label],
                self._section,
                score=partial(score_on_learners, self._learners, self._module_id),
                decode=chat.reply_text,
                seed=[Stream.PROBE, self._config.seed, counters.iteration, *([number] if label else [])],
                std_ema=before,
            )
            found |= {f"{prefix}{name}": value for name, value in metrics.items()}
            running |= {f"{prefix}{key}": std for key, std in after.items()}
        counters.std_ema = running
        return found

    @cached_property
    def _chats(self) -> dict[str, ChatFormat]:
        """How the model is talked to, by the environment's label; empty for the only one."""
        own = self._config.own_ways_to_reply()
        return {label: chat for label, (chat, _) in own.items()} or {"": self._config.chat_format()}
