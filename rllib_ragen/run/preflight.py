"""The checks before Ray, torch or a model is loaded, so that bad input is reported within seconds."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.paths import enter_path
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.config.task_names import game_name
from rllib_ragen.models.folder import check_model_folder
from rllib_ragen.models.folder_files import read_object
from rllib_ragen.models.tiny.run_model import check_taught
from rllib_ragen.rollout.engines.choose import EngineChoice, choose_engine
from rllib_ragen.run.start_ray import check_ray_address, set_thread_waits
from rllib_ragen.run.trackers.registry import check_trackers
from rllib_ragen.run.users_modules import SET_IN_RAY_JOBS
from rllib_ragen.starpo.checks.lora import check_lora

_TEMPLATE_FILES = ("chat_template.jinja", "chat_template.json")


def preflight(config: RunConfig, *, writes: bool = True, taught: bool = True) -> EngineChoice:
    """Checks model folder, engine, RAY_ADDRESS and, where the command `writes` to them, trackers and results folder.

    Cheap checks come first; transformers and torch are loaded only for the last ones.

    Args:
        config: checked.
        writes: see above.
        taught: whether the embedded model is refused where it was taught nothing.

    Returns:
        The engine that will sample.

    Raises:
        ConfigError: one sentence naming the key.
    """
    try:
        if taught:
            check_taught(config)
        in_game = not config.envs and game_name(config.env.name) is not None
        folder = check_model_folder(config.model.path, config.rollout.max_context_tokens, in_game=in_game)
        check_chat_template(folder)
        check_lora(config.learner, folder)
        if writes:
            check_trackers(config.trackers)
            check_writable(config.results_dir)
        engine = choose_engine(
            config.rollout.engine,
            num_env_runners=config.rollout.num_env_runners,
            model_path=folder,
            on_gpu=config.rollout.num_gpus_per_env_runner > 0,
        )
    except ValueError as error:
        raise ConfigError(str(error)) from None
    check_ray_address()
    check_with_transformers(config, folder)
    return engine


def check_with_transformers(config: RunConfig, folder: Path) -> None:
    """Checks the model in `folder` by reading it as its loaders do; the last part of `preflight`.

    Raises:
        ConfigError: one sentence naming the key.
    """
    set_thread_waits()
    from rllib_ragen.starpo.checks.model import check_chats

    check_chats(folder, config)


def check_chat_template(folder: Path) -> None:
    """Checks that the folder's tokenizer has a chat template.

    Raises:
        ConfigError: it has none.
    """
    tokenizer = folder / "tokenizer_config.json"
    if any((folder / name).is_file() for name in _TEMPLATE_FILES):
        return
    if not (tokenizer.is_file() and read_object(tokenizer).get("chat_template")):
        raise ConfigError(f"model.path: the tokenizer in {folder} has no chat template ({_TEMPLATE_FILES[0]})")


def check_writable(folder: Path) -> None:
    """Makes `folder` and checks that it is writable.

    Raises:
        ConfigError: it is not, or it would vanish with the working directory of a Ray job.
    """
    folder = enter_path(folder)
    if SET_IN_RAY_JOBS in os.environ and folder.is_relative_to(Path.cwd()):
        raise ConfigError(
            f"results_dir: {str(folder)!r} would be deleted with the working directory of this Ray job;"
            " give --results-dir an absolute path that all nodes share"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ConfigError(f"results_dir: cannot write to {folder}: {error.strerror}") from None
