"""A model as a player, with the rollouts' engine and chat format."""

from __future__ import annotations

import torch

from rllib_ragen.models.chat_format import ChatFormat
from rllib_ragen.models.load import load_model
from rllib_ragen.rollout.conversation import Sampler
from rllib_ragen.rollout.engines.hf import HFEngine
from rllib_ragen.tournament.matches import MAX_TABLES
from rllib_ragen.tournament.model_sources import ModelSource
from rllib_ragen.tournament.reply_limits import ReplyLimits
from rllib_ragen.types import Sampling


def load_player(source: ModelSource, limits: ReplyLimits) -> Sampler:
    """Loads the model, on the GPU if there is one.

    Raises:
        ValueError: the folder has no usable chat template.
    """
    model = load_model(source.folder, torch.float32, source.adapter)
    module: torch.nn.Module = model
    module.to("cuda" if torch.cuda.is_available() else "cpu")
    chat = ChatFormat.from_folder(
        source.folder, reply_prefix=source.reply_prefix, template_kwargs=source.template_kwargs
    )
    sampling = Sampling(
        max_tokens=limits.max_reply_tokens,
        stop_token_ids=chat.stop_token_ids,
        temperature=limits.temperature,
        top_p=limits.top_p,
        top_k=limits.top_k,
    )
    engine = HFEngine(model, max_context=limits.max_context_tokens, max_rows=MAX_TABLES)
    return Sampler(engine, chat, sampling, limits.max_context_tokens)
