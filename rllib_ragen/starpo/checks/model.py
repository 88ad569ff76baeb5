"""Checks that a config's model can be trained with its settings; loads the tokenizer, but no weight."""

from __future__ import annotations

from pathlib import Path

from rllib_ragen.config.environments import worlds
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.paths import EMBEDDED_MODEL
from rllib_ragen.config.schema import ModelSection, RunConfig
from rllib_ragen.models.chat_format import ChatFormat
from rllib_ragen.models.check_chat import check_chat
from rllib_ragen.models.check_model import check_model
from rllib_ragen.starpo.checks.environments import told_of


def check_chats(folder: Path, config: RunConfig, *, knows_form: bool = True) -> None:
    """Does `check_model_and_chat` for every environment of a run.

    Args:
        folder: of the model.
        config: the run.
        knows_form: whether its environments want this project's form of replies; False: one of somebody else.

    Raises:
        ConfigError: one sentence that names the key.
    """
    for number, world in enumerate(worlds(config)):
        env = world.target.env
        try:
            check_model_and_chat(
                folder,
                config.model,
                max_context_tokens=config.rollout.max_context_tokens,
                reply_prefix=env.reply_prefix,
                think=env.think if knows_form else None,
            )
        except ConfigError as error:
            raise ConfigError(told_of(f"envs[{number}]", str(error)) if config.envs else str(error)) from None


def check_model_and_chat(
    folder: Path, model: ModelSection, *, max_context_tokens: int, reply_prefix: str, think: bool | None
) -> None:
    """Checks the files that learner, engines and chat format will load, by reading them in the same way.

    Args:
        folder: folder of the model, checked by `check_model_folder`.
        model: the run's section `model`.
        max_context_tokens: `rollout.max_context_tokens`.
        reply_prefix: `env.reply_prefix`.
        think: `env.think`; None for environments with a grammar of their own.

    Raises:
        ConfigError: one sentence that names the key.
    """
    if model.path != EMBEDDED_MODEL:
        check_model(folder, max_context_tokens)
    try:
        chat = ChatFormat.from_folder(folder, reply_prefix=reply_prefix, template_kwargs=model.template_kwargs)
        check_chat(chat, think)
    except ConfigError:
        raise
    except ValueError as error:
        text = str(error)
        raise ConfigError(text if text.startswith(("model.", "env.")) else f"model.path: {text}") from None
