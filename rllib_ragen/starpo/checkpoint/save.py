"""Writing and reading of checkpoints, with the layout in layout.py.

There is no random state to save: everything random follows from the run seed and the counters. Nor are there states
of schedules and filters, which follow from the counters and the batch, or of alarms, which follow from the run's log.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ragen_envs.tree import Tree
from rllib_ragen.models.folder_files import MODEL_WEIGHTS
from rllib_ragen.models.llm_module import LLM, VALUE_HEAD, lm_weights
from rllib_ragen.models.lora_settings import LoraSettings
from rllib_ragen.models.weight_arrays import WeightArray, WeightState, from_array
from rllib_ragen.rollout.trajectory_json import from_json, to_json
from rllib_ragen.starpo.checkpoint.adapter_base import adapter_base
from rllib_ragen.starpo.checkpoint.adapter_folder import read_adapter_folder, write_adapter_folder
from rllib_ragen.starpo.checkpoint.files import PARTIAL, check_files, digests, move_into
from rllib_ragen.starpo.checkpoint.layout import (
    AHEAD_FILE,
    RLLIB_FILE,
    STATE_FILE,
    ModuleFiles,
    module_files,
)
from rllib_ragen.starpo.checkpoint.manifest import read_manifest, write_manifest
from rllib_ragen.starpo.checkpoint.versions import installed_versions
from rllib_ragen.starpo.checkpoint.weight_files import load_weights, save_weights
from rllib_ragen.types import Trajectory

_FOR_RLLIB = {
    "type": "Algorithm",
    "checkpoint_version": "this is no pickle but a StarPO checkpoint; call StarPO.from_checkpoint(path), with"
    " 'from rllib_ragen.starpo.algorithm import StarPO'",
}
"""Contents of the file that `Algorithm.from_checkpoint` reads first. Then it looks for a pickle, which this folder
does not have, and its error quotes the version."""
_WEIGHT_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".index.json", ".msgpack", ".h5")


def save_checkpoint(
    folder: Path,
    learner_state: Mapping[str, Any],
    progress: Mapping[str, object],
    config: Mapping[str, object],
    source: Path,
    *,
    ahead: Sequence[Trajectory] = (),
    lora: LoraSettings | None = None,
) -> None:
    """Writes a checkpoint.

    Args:
        folder: the folder, made if necessary; an earlier checkpoint in it is replaced.
        learner_state: result of `Learner.get_state()`.
        progress: the algorithm's counters.
        config: the run's config, as JSON.
        source: the model folder that training started from: tokenizer and configs are copied from it.
        ahead: trajectories that are sampled and not yet used by an update.
        lora: settings of the adapters that are trained instead of all weights; None: none.
    """
    partial = folder / PARTIAL
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    if ahead:
        (partial / AHEAD_FILE).write_text("".join(json.dumps(to_json(one)) + "\n" for one in ahead), encoding="utf-8")
    (partial / RLLIB_FILE).write_text(json.dumps(_FOR_RLLIB, indent=2) + "\n", encoding="utf-8")
    version = str(learner_state["weights_seq_no"])
    for module_id in learner_state["rl_module"]:
        _write_module(module_files(partial, module_id), module_id, learner_state, source, lora, version)
    manifest = {
        "modules": sorted(learner_state["rl_module"]),
        "weights_seq_no": learner_state["weights_seq_no"],
        "skipped_in_a_row": dict(learner_state["skipped_in_a_row"]),
        "progress": dict(progress),
        "config": dict(config),
        "versions": installed_versions(),
        "adapter_base": adapter_base(source, lora) if lora else None,
        "files": digests(partial),
    }
    write_manifest(partial, manifest)
    (folder / AHEAD_FILE).unlink(missing_ok=True)
    move_into(partial, folder, STATE_FILE)


def _write_module(
    files: ModuleFiles,
    module_id: str,
    learner_state: Mapping[str, Any],
    source: Path,
    lora: LoraSettings | None,
    version: str,
) -> None:
    state = learner_state["rl_module"][module_id]
    if lora is None:
        write_model_folder(files.policy, lm_weights(state), source, version)
    else:
        write_adapter_folder(files.adapter, state, lora, source, version)
    head = {name: array for name, array in state.items() if name.startswith(VALUE_HEAD)}
    save_weights(files.value_head, head, version)
    moments = {
        f"{name.removeprefix(module_id + '_')}/{key}": array
        for name, entry in learner_state["optimizer"].items()
        if entry["module_id"] == module_id
        for key, array in entry["state"].items()
    }
    save_weights(files.optimizer, moments, version)


def load_learner_state(folder: Path) -> Tree:
    """Reads the learner's state in a checkpoint, for `Learner.set_state`.

    Raises:
        ValueError: no complete checkpoint, or a damaged file; the sentence names it.
    """
    manifest = read_manifest(folder)
    check_files(folder, manifest["files"], contents=True)
    version = str(manifest["weights_seq_no"])
    modules: dict[str, WeightState] = {}
    optimizers: Tree = {}
    for module_id in manifest["modules"]:
        own = module_files(folder, module_id)
        if manifest.get("adapter_base"):
            policy = read_adapter_folder(own.adapter, version)
        else:
            policy = load_weights(own.policy / MODEL_WEIGHTS, version)
        head = load_weights(own.value_head, version)
        modules[module_id] = {**{LLM + name: array for name, array in policy.items()}, **head}
        for key, array in load_weights(own.optimizer, version).items():
            optimizer, moment = key.split("/", 1)
            entry = optimizers.setdefault(f"{module_id}_{optimizer}", {"module_id": module_id, "state": {}})
            entry["state"][moment] = array
    counters = {name: manifest[name] for name in ("weights_seq_no", "skipped_in_a_row")}
    return {"rl_module": modules, "optimizer": optimizers, **counters}


def read_ahead(folder: Path) -> list[Trajectory]:
    """Reads the trajectories of `save_checkpoint`'s `ahead`."""
    path = folder / AHEAD_FILE
    if not path.is_file():
        return []
    return [from_json(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def write_model_folder(folder: Path, state: Mapping[str, WeightArray], source: Path, version: str = "") -> None:
    """Writes a plain transformers folder: `state` as safetensors, all files but weights copied from `source`."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in source.iterdir():
        if path.is_file() and not path.name.endswith(_WEIGHT_SUFFIXES) and path.parent != folder:
            shutil.copyfile(path, folder / path.name)
    dtype = str(from_array(next(iter(state.values()))).dtype).removeprefix("torch.")
    config = json.loads((folder / "config.json").read_text())
    config.pop("torch_dtype", None)
    (folder / "config.json").write_text(json.dumps({**config, "dtype": dtype}, indent=2) + "\n")
    save_weights(folder / MODEL_WEIGHTS, state, version)
