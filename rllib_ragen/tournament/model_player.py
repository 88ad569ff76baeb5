"""A model at many tables at once: the rollouts' own contexts, chat format and engine."""

from __future__ import annotations

import torch
from transformers import PreTrainedModel

from rllib_ragen.models.chat_format import ChatFormat
from rllib_ragen.models.load_model import load_model
from rllib_ragen.rollout.context import Context
from rllib_ragen.rollout.engines.base import EngineFailure
from rllib_ragen.rollout.engines.hf import HFEngine
from rllib_ragen.tournament.matches import MAX_TABLES
from rllib_ragen.tournament.model_sources import ModelSource
from rllib_ragen.tournament.players import Place, Question, ReplyLimits, TablePlayer
from rllib_ragen.types import Sampling


class ModelPlayer(TablePlayer):
    """Answers as in a rollout. Where the context has no room for a reply, it says nothing: an illegal move."""

    def __init__(self, name: str, model: PreTrainedModel, chat: ChatFormat, limits: ReplyLimits) -> None:
        """
        Args:
            name: in tables.
            model: a causal LM, on the device where it is to sample.
            chat: its chat format.
            limits: how it is sampled.
        """
        self.name = name
        self.num_speechless = 0
        """Replies that the context had no room for."""
        self._chat, self._limits = chat, limits
        self._engine = HFEngine(model, max_context=limits.max_context_tokens, max_rows=MAX_TABLES)
        self._contexts: dict[Place, Context] = {}
        self._keys: dict[Place, int] = {}
        self._places: dict[int, Place] = {}
        self._speechless: list[tuple[Place, str]] = []
        self._next_key = 0

    @classmethod
    def load(cls, source: ModelSource, limits: ReplyLimits) -> ModelPlayer:
        """Loads the model, on the GPU if there is one.

        Raises:
            ValueError: the folder has no usable chat template.
        """
        model = load_model(source.folder, torch.float32, source.adapter)
        module: torch.nn.Module = model
        module.to("cuda" if torch.cuda.is_available() else "cpu")
        return cls(source.name, model, ChatFormat.from_folder(source.folder), limits)

    def ask(self, question: Question) -> None:
        place, context = question.place, self._contexts.get(question.place)
        if context is None:
            context = self._contexts[place] = Context(self._chat)
            self._keys[place], self._places[self._next_key] = self._next_key, place
            self._next_key += 1
            context.first(question.system, question.prompt)
        elif self._room(context) >= 1:
            context.next(question.prompt)
        room = self._room(context)
        if room < 1:
            self.num_speechless += 1
            self._speechless.append((place, ""))
            return
        sampling = Sampling(
            max_tokens=min(room, self._limits.max_reply_tokens),
            stop_token_ids=self._chat.stop_token_ids,
            temperature=self._limits.temperature,
            top_p=self._limits.top_p,
            top_k=self._limits.top_k,
            seed=question.seed,
        )
        self._engine.add(self._keys[place], context.token_ids, sampling)

    def answers(self) -> list[tuple[Place, str]]:
        """Raises RuntimeError if the engine fails."""
        replies, self._speechless = self._speechless, []
        if replies:
            return replies
        for key, result in self._engine.poll():
            if isinstance(result, EngineFailure):
                raise RuntimeError(f"{self.name}: the engine failed: {result.error}")
            place = self._places[key]
            replies.append((place, self._contexts[place].reply(result).reply))
        return replies

    def forget(self, place: Place) -> None:
        if place in self._keys:
            key = self._keys.pop(place)
            self._engine.forget(key)
            del self._places[key], self._contexts[place]

    def _room(self, context: Context) -> int:
        return self._limits.max_context_tokens - len(context.token_ids)
