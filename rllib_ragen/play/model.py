"""A model as the agent in the terminal, with the replies of an evaluation of the same instance."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator
from pathlib import Path

import torch

from rllib_ragen.config.schema import RunConfig
from rllib_ragen.faults.watchdog import waiting
from rllib_ragen.models.chat_format import ChatFormat
from rllib_ragen.models.load import load_model
from rllib_ragen.models.tiny.run_model import run_model_folder
from rllib_ragen.play.shown_session import PlayerLeft, show
from rllib_ragen.rollout.conversation import Ask, PolicyConversation, Sampler, reply_sampling
from rllib_ragen.rollout.engines.hf import HFEngine


class Model(PolicyConversation):
    """A policy whose replies are shown with their control tokens. At a terminal each waits for Enter; any text ends
    it.
    """

    def answer(self) -> Generator[Ask, None, None]:
        if sys.stdin.isatty() and not self.full:
            print("Enter: the model's turn; q and Enter: stop ", end="", flush=True)
            with waiting("your Enter", time.monotonic):
                line = sys.stdin.readline()
            if line.strip(" ") != "\n":
                raise PlayerLeft
        yield from super().answer()
        turn, chat = self.trajectory.turns[-1], self.sampler.chat
        raw = chat.tokenizer.decode(turn.reply_ids.tolist(), skip_special_tokens=False)
        cut = "" if turn.reply_ids[-1] in chat.stop_token_ids else " (cut off)"
        show(f"assistant, {len(turn.reply_ids)} tokens{cut}, log-prob {turn.logprobs.sum():.2f}", str(raw))


def load_sampler(config: RunConfig, adapter: Path | None, *, greedy: bool) -> Sampler:
    """Loads the model that a checked config names, on the CPU.

    Args:
        config: names the model, and its sampling settings.
        adapter: a peft folder to merge into the model.
        greedy: always take the likeliest token.
    """
    rollout = config.rollout
    torch.set_num_threads(config.learner.torch_threads or torch.get_num_threads())
    folder = run_model_folder(config)
    model = load_model(folder, getattr(torch, config.model.dtype), adapter)
    chat = ChatFormat.from_folder(
        folder, reply_prefix=config.env.reply_prefix, template_kwargs=config.model.template_kwargs
    )
    sampling = reply_sampling(rollout, chat, greedy=greedy, temperature=config.eval_temperature)
    engine = HFEngine(model, max_context=rollout.max_context_tokens, max_rows=1)
    return Sampler(engine, chat, sampling, rollout.max_context_tokens)
