"""A model as a player in the terminal: the rollouts' own context, chat format and engine, one turn at a time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import torch

from rllib_ragen.config.schema import RunConfig
from rllib_ragen.models.chat_format import ChatFormat
from rllib_ragen.models.folder import model_folder
from rllib_ragen.models.load_model import load_model
from rllib_ragen.rollout.collect import turn_seed
from rllib_ragen.rollout.context import Context
from rllib_ragen.rollout.engines.base import EngineFailure
from rllib_ragen.rollout.engines.hf import HFEngine
from rllib_ragen.types import Sampling

_KEY = 0


class Policy:
    """Answers as it does in an evaluation of the same instance."""

    def __init__(
        self,
        config: RunConfig,
        adapter: Path | None = None,
        *,
        greedy: bool,
        sampling_seed: int,
        show: Callable[[str, str], None],
    ) -> None:
        """Loads the model that `config.model` names, on the CPU.

        Args:
            config: a checked config.
            adapter: a peft folder to merge into the model.
            greedy: the likeliest token always.
            sampling_seed: of the evaluation's episode (EpisodeSpec).
            show: prints a message under a role.
        """
        torch.set_num_threads(config.learner.torch_threads or torch.get_num_threads())
        folder = model_folder(config.model.path)
        model = load_model(folder, getattr(torch, config.model.dtype), adapter)
        self._rollout = config.rollout
        self._greedy, self._seed, self._show = greedy, sampling_seed, show
        self._chat = ChatFormat.from_folder(folder)
        self._context = Context(self._chat)
        self._engine = HFEngine(model, max_context=config.rollout.max_context_tokens, max_rows=1)
        self._turn = 0

    def told(self, system: str, user: str) -> None:
        """Starts the context."""
        self._context.first(system, user)

    def next(self, user: str) -> None:
        """Goes on with it."""
        self._context.next(user)

    def reply(self) -> str | None:
        """The model's reply, shown with its control tokens; None if the context is full or the person wants no more.

        At a terminal each reply waits for Enter; anything else ends the game.
        """
        if sys.stdin.isatty():
            print("Enter: the model's turn; q and Enter: stop ", end="", flush=True)
            if sys.stdin.readline().strip(" ") != "\n":
                return None
        room = self._rollout.max_context_tokens - len(self._context.token_ids)
        if room < 1:
            print(f"the context is full (rollout.max_context_tokens={self._rollout.max_context_tokens})")
            return None
        self._engine.add(_KEY, self._context.token_ids, self._sampling(room))
        ((_, result),) = self._engine.poll()
        if isinstance(result, EngineFailure):
            print(f"the engine failed: {result.error}")
            return None
        self._turn += 1
        raw = self._chat.tokenizer.decode(result.token_ids, skip_special_tokens=False)
        cut = "" if result.finished else " (cut off)"
        logprob = sum(result.logprobs)
        self._show(f"assistant, {len(result.token_ids)} tokens{cut}, log-prob {logprob:.2f}", str(raw))
        return self._context.reply(result).reply

    def _sampling(self, room: int) -> Sampling:
        return Sampling(
            max_tokens=min(room, self._rollout.max_reply_tokens),
            stop_token_ids=self._chat.stop_token_ids,
            temperature=0.0 if self._greedy else self._rollout.temperature,
            seed=turn_seed(self._seed, self._turn),
        )
