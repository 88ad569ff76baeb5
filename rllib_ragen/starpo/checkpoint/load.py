"""Restoring a checkpoint's state in a run."""

from __future__ import annotations

import logging
from pathlib import Path

from ray.rllib.core.learner.learner_group import LearnerGroup

from rllib_ragen.learner.learner_calls import on_every_learner
from rllib_ragen.starpo.checkpoint.adapter_base import check_adapter_base
from rllib_ragen.starpo.checkpoint.manifest import config_differences, read_manifest
from rllib_ragen.starpo.checkpoint.save import load_learner_state, read_ahead
from rllib_ragen.starpo.config import StarPOConfig
from rllib_ragen.starpo.counters import Counters
from rllib_ragen.types import Trajectory

logger = logging.getLogger(__name__)


def load_state(folder: Path, config: StarPOConfig, learners: LearnerGroup) -> tuple[Counters, list[Trajectory]]:
    """Restores the checkpoint's state in the learners → (its counters, trajectories that were sampled ahead).

    Warns of settings that differ from the checkpoint's run: the rest is another run then.

    Raises:
        ValueError: no complete checkpoint, a damaged file, or a checkpoint of another model.
    """
    manifest = read_manifest(folder)
    differing = config_differences(manifest["config"], config.to_run_config().model_dump(mode="json"))
    try:
        check_adapter_base(manifest["adapter_base"], config.model_folder, config.lora())
        state = load_learner_state(folder)
        on_every_learner(learners, lambda learner: learner.restore(state), "loading a checkpoint")
    except ValueError as error:
        raise ValueError("; ".join([str(error), *differing])) from error
    if differing:
        logger.warning("%s was saved with other settings: %s", folder, "; ".join(differing))
    return Counters.from_manifest(manifest["progress"]), read_ahead(folder)
