"""Export of policies and adapters as plain folders for other tools."""

from __future__ import annotations

from pathlib import Path

from ray.rllib.core.learner.learner_group import LearnerGroup

from ragen_envs.tree import Tree
from rllib_ragen.learner.learner import StarPOLearner
from rllib_ragen.learner.learner_calls import at_work, on_first_learner
from rllib_ragen.models.llm_module import lm_weights
from rllib_ragen.models.weight_arrays import WeightState
from rllib_ragen.starpo.checkpoint.adapter_folder import write_adapter_folder
from rllib_ragen.starpo.checkpoint.save import write_model_folder
from rllib_ragen.starpo.config import StarPOConfig


def learner_state(learners: LearnerGroup) -> Tree:
    """Returns weights, optimisers and counters of the learners, from `Learner.get_state()`."""
    with at_work(learners, "a copy of the state"):
        state: Tree = learners.get_state(not_components="learner/metrics_logger")["learner"]
    return state


def export_policy(learners: LearnerGroup, module_id: str, source: Path, folder: Path) -> Path:
    """Writes a policy, adapters merged, in the sampler's dtype, as a plain transformers folder with tokenizer.

    Args:
        learners: the learners.
        module_id: id of the policy.
        source: model folder that training started from: tokenizer and configs are copied from it.
        folder: the folder to make.
    """

    def sampled_with(learner: StarPOLearner) -> WeightState:
        state: WeightState = learner.module[module_id].unwrapped().get_state(inference_only=True)
        return state

    write_model_folder(folder, lm_weights(on_first_learner(learners, sampled_with)), source)
    return folder


def export_adapter(learners: LearnerGroup, module_id: str, config: StarPOConfig, folder: Path) -> Path:
    """Writes the adapters as a peft folder for the model that the run started from.

    Raises:
        ValueError: the run trains all weights.
    """
    lora = config.lora()
    if lora is None:
        raise ValueError("learner.lora_rank=null: there is no adapter to export")
    write_adapter_folder(folder, learner_state(learners)["rl_module"][module_id], lora, config.model_folder)
    return folder
