"""Whether a small model, whose folder says what it was taught, is given something else: told, not refused."""

from __future__ import annotations

import json
from pathlib import Path

from ragen_envs.tree import Tree
from rllib_ragen.config.environments import worlds
from rllib_ragen.config.load import read_yaml
from rllib_ragen.config.paths import EMBEDDED_MODEL
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.config.task_names import task_name
from rllib_ragen.models.folder import model_folder
from rllib_ragen.run.folder import CONFIG_FILE, is_run_folder
from rllib_ragen.starpo.checkpoint.layout import is_checkpoint
from rllib_ragen.starpo.checkpoint.manifest import read_manifest

_MADE = "made.json"
"""Card that the recipes of small models leave in their folders; runs copy it with the tokenizer."""


def misfits(config: RunConfig) -> list[str]:
    """Returns what the run's model does not know, a sentence each; nothing of models that do not say what they know.

    A language model learns what it was not taught. A small model that was made for some tasks says nothing valid in
    others, nor where it is told more than it was.
    """
    folder = model_folder(config.model.path)
    if config.model.path == EMBEDDED_MODEL:
        # Refused where it was not taught (models.tiny.run_model); a game has a small model of its own.
        return []
    taught = taught_tasks(folder)
    if not taught:
        return []
    found = []
    for number, world in enumerate(worlds(config)):
        task, where = task_name(world.target.env.name), f"envs[{number}]" if config.envs else "env"
        if task not in taught:
            found.append(
                f"the model in {folder} was taught {', '.join(taught)}, and not {task}: it may have no valid reply"
                " there"
            )
        if world.target.prompt_style == "full":
            found.append(
                f"the model in {folder} was taught brief prompts, and {where}.prompt_style="
                f"{world.target.env.prompt_style} tells it full ones; {where}.prompt_style=brief is what it knows"
            )
    return found


def taught_tasks(folder: Path) -> list[str]:
    """Returns the tasks that a small model knows: those of its recipe, and that of the run which it comes from."""
    made = _json(folder / _MADE)
    taught: object = made.get("taught")
    lessons: list[object] = taught if isinstance(taught, list) else [{"env": made.get("game")}]
    tasks = [lesson["env"] for lesson in lessons if isinstance(lesson, dict) and isinstance(lesson.get("env"), str)]
    return list(dict.fromkeys([*tasks, *_trained_on(folder)])) if tasks else []


def _trained_on(folder: Path) -> list[str]:
    """Returns the tasks of the run that exported the folder, or that wrote the checkpoint which it lies in."""
    try:
        if is_run_folder(folder.parent):
            config = read_yaml(folder.parent / CONFIG_FILE)
        elif is_checkpoint(folder.parents[1]):
            config = read_manifest(folder.parents[1])["config"]
        else:
            return []
        return [task_name(env["name"]) for env in config.get("envs") or [config["env"]]]
    except (ValueError, KeyError, TypeError, IndexError):
        # A run of another version, or of an environment that is not there any more: its recipe stands.
        return []


def _json(path: Path) -> Tree:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
