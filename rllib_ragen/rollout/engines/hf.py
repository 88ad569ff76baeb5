"""Continuous batched decoding with transformers, for any causal LM with the Cache and attention interfaces.

Every episode keeps its row of the KV cache between turns, so a turn costs its new tokens only. Requests join and leave
the batch at any step; prefills are batched, because a forward pass costs much the same for one row as for many.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor
from transformers import PreTrainedModel

from rllib_ragen.faults.heartbeat import beat
from rllib_ragen.models.attention import ATTENTION, additive_mask
from rllib_ragen.rollout.engines.base import BUSY, Engine, EngineFailure
from rllib_ragen.rollout.engines.prefixes import share_prefixes
from rllib_ragen.rollout.engines.ragged_cache import RaggedCache, Window
from rllib_ragen.rollout.engines.requests import Request, Rows, sampling_tensors
from rllib_ragen.rollout.engines.sampling import sample_tokens
from rllib_ragen.rollout.engines.weight_check import WeightSpec
from rllib_ragen.types import Sampled, Sampling

Result = tuple[int, Sampled | EngineFailure]

_WAITING_SHARE = 8
"""A prefill starts at one waiting request per so many live ones: chosen freely; with a larger share rows stay idle,
with a smaller one passes get small.
"""
_DENSE_SHARE = 0.7
"""Share of live rows above which idle rows are computed, too, instead of gathering the live ones' keys: chosen freely.
It decides on speed alone: replies are the same either way."""


class HFEngine(Engine):
    """An engine with a transformers model in this process, on the model's device.

    The model may be shared with a learner: then call `weights_changed` after each update, instead of `load_weights`.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        max_context: int,
        max_rows: int = 128,
        prefill_tokens: int = 8192,
        version: int = 0,
    ) -> None:
        """Takes `model`, switched to this project's attention, and plans its cache (allocated at first use).

        Args:
            model: a causal LM; set to evaluation mode while it samples, then restored.
            max_context: tokens of prompt and reply of one episode; at most the model's length.
            max_rows: episodes decoded at once; further requests wait.
            prefill_tokens: padded tokens of one prefill pass.
            version: policy version of the weights as they are.

        Raises:
            ValueError: the model cannot be served by this engine, or max_context exceeds its length.
        """
        _check_servable(model, max_context)
        model.set_attn_implementation(ATTENTION)
        self.model = model
        self.version = version
        self.max_context = max_context
        self.prefill_tokens = prefill_tokens
        self.vocab_size = int(model.config.get_text_config().vocab_size)
        self._cache = RaggedCache(model.config.get_text_config().num_hidden_layers, max_rows, max_context)
        self._rows = Rows(max_rows)
        self._waiting: dict[int, Request] = {}
        self._decoding: dict[int, Request] = {}
        self._rejected: list[Result] = []

    @property
    def device(self) -> torch.device:
        """Device of the model."""
        return self.model.device

    def add(self, key: int, prompt_ids: Sequence[int], sampling: Sampling) -> None:
        if key in self._waiting or key in self._decoding:
            raise ValueError(f"episode {key} already has a request in flight")
        prompt = [int(token) for token in prompt_ids]
        if error := self.prompt_error(prompt, sampling):
            self._rejected.append((key, EngineFailure(error)))
        else:
            self._waiting[key] = Request.make(key, prompt, sampling, self.max_context - len(prompt))

    def poll(self) -> list[Result]:
        results, self._rejected = self._rejected, []
        with _evaluating(self.model), torch.no_grad():
            while not results and (self._waiting or self._decoding):
                waits_long = len(self._waiting) * _WAITING_SHARE >= len(self._waiting) + len(self._decoding)
                admitted = self._admit() if waits_long else []
                results = self._prefill(admitted) if admitted else self._decode()
        return results

    def forget(self, key: int) -> None:
        self._waiting.pop(key, None)
        self._decoding.pop(key, None)
        self._rejected = [result for result in self._rejected if result[0] != key]
        self._rows.release(key)

    def load_weights(self, named: Mapping[str, Tensor], version: int) -> None:
        if self._waiting or self._decoding:
            raise RuntimeError(BUSY)
        WeightSpec.of(self.model).check(named)
        state = self.model.state_dict()
        with torch.no_grad():
            for name, tensor in named.items():
                state[name].copy_(tensor)
        self.weights_changed(version)

    def weights_changed(self, version: int) -> None:
        """Drops every cache and sets the new version, after the (shared) model's weights have been updated in place."""
        if self._waiting or self._decoding:
            raise RuntimeError(BUSY)
        self._rows.release_all()
        self.version = version

    def reset(self) -> None:
        self._waiting.clear()
        self._decoding.clear()
        self._rejected.clear()
        self._rows.release_all()

    def close(self) -> None:
        self.reset()
        del self._cache

    def _admit(self) -> list[Request]:
        """Assigns free rows to waiting requests → the requests with a row."""
        admitted = []
        for request in list(self._waiting.values()):
            if self._rows.assign(request, busy=self._decoding.keys() | self._waiting.keys()):
                admitted.append(self._waiting.pop(request.key))
                self._decoding[request.key] = request
        return admitted

    def _prefill(self, requests: list[Request]) -> list[Result]:
        """Prefills in as many passes as the token limit and shared prefixes (computed once, then copied) require."""
        results: list[Result] = []
        while requests:
            plan = share_prefixes(requests, self._rows.computed())
            for copy in plan.copies:
                self._cache.copy_row(copy.source, copy.request.row, copy.length)
                copy.request.cached = copy.length
            ready = sorted(plan.ready, key=lambda request: request.num_new)
            count = 1
            while count < len(ready) and (count + 1) * ready[count].num_new <= self.prefill_tokens:
                count += 1
            batch, requests = ready[:count], ready[count:] + plan.later
            logits = self._prefill_pass(batch)
            for request in batch:
                self._rows.prefilled(request)
            results += self._advance(batch, logits, None)
        return results

    def _prefill_pass(self, batch: list[Request]) -> Tensor:
        """Runs one pass over the new tokens of `batch`, right-aligned, so that the last column has every row's last
        token.
        """
        width = max(request.num_new for request in batch)
        tokens = torch.zeros(len(batch), width, dtype=torch.int64)
        positions = torch.zeros(len(batch), width, dtype=torch.int64)
        real = torch.zeros(len(batch), width, dtype=torch.bool)
        for i, request in enumerate(batch):
            start = width - request.num_new
            tokens[i, start:] = torch.tensor(request.prompt[request.cached :])
            positions[i, start:] = torch.arange(request.cached, len(request.prompt))
            real[i, start:] = True
        batch_index, query_index = real.nonzero(as_tuple=True)
        rows = torch.tensor([request.row for request in batch])
        window = self._window(rows, len(batch), batch_index, query_index, rows[batch_index], positions[real])
        return self._forward(tokens, positions, window)

    def _decode(self) -> list[Result]:
        batch = sorted(self._decoding.values(), key=lambda request: request.row)
        row_list = [request.row for request in batch]
        top = row_list[-1] + 1
        rows = torch.tensor(row_list)
        dense = len(batch) >= _DENSE_SHARE * top
        where = rows if dense else torch.arange(len(batch))
        size = top if dense else len(batch)
        tokens = torch.zeros(size, dtype=torch.int64)
        positions = torch.zeros(size, dtype=torch.int64)
        tokens[where] = torch.tensor([request.tokens[-1] for request in batch])
        position = torch.tensor([request.length - 1 for request in batch])
        positions[where] = position
        query_index = torch.zeros_like(rows)
        window = self._window(None if dense else rows, size, where, query_index, rows, position)
        logits = self._forward(tokens[:, None], positions[:, None], window)
        return self._advance(batch, logits, where if dense and size != len(batch) else None)

    def _window(
        self, rows: Tensor | None, size: int, batch: Tensor, query: Tensor, cache_row: Tensor, position: Tensor
    ) -> Window:
        on = self.device
        index = [tensor.to(on) for tensor in (batch, query, cache_row, position)]
        return Window(None if rows is None else rows.to(on), size, int(position.max()) + 1, *index)

    def _forward(self, tokens: Tensor, positions: Tensor, window: Window) -> Tensor:
        """Computes the logits [B, V] of the last column. Key j is visible to a query at position p if j ≤ p."""
        beat()
        self._cache.set_window(window)
        positions = positions.to(self.device)
        visible = torch.arange(window.num_keys, device=self.device) <= positions[:, None, :, None]
        output = self.model(
            input_ids=tokens.to(self.device),
            attention_mask=additive_mask(visible, self.model.dtype),
            position_ids=positions,
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=1,
        )
        logits: Tensor = output.logits[:, -1]
        return logits.float()

    def _advance(self, batch: list[Request], logits: Tensor, where: Tensor | None) -> list[Result]:
        """Samples the next token of each request → the finished ones."""
        if where is not None:
            logits = logits[where.to(logits.device)]
        tokens, logprobs = sample_tokens(logits, sampling_tensors(batch, logits.device))
        results: list[Result] = []
        for request, token, logprob in zip(batch, tokens.tolist(), logprobs.tolist(), strict=True):
            if not math.isfinite(logprob):
                self._fail(request)
                results.append((request.key, EngineFailure("the model gave non-finite logits")))
            elif request.push(token, logprob):
                del self._decoding[request.key]
                self._rows.keep(request)
                results.append((request.key, request.sampled(self.version)))
        return results

    def _fail(self, request: Request) -> None:
        """Drops a request whose row may hold non-finite keys."""
        del self._decoding[request.key]
        self._cache.clear_row(request.row)
        self._rows.release(request.key)


def _check_servable(model: PreTrainedModel, max_context: int) -> None:
    config = model.config.get_text_config()
    name = type(model).__name__
    limit = getattr(config, "max_position_embeddings", None)
    if limit is not None and max_context > limit:
        raise ValueError(f"max_context_tokens {max_context} exceeds the model's length of {limit}")
    if model.config.is_encoder_decoder or not getattr(model, "_supports_attention_backend", False):
        raise ValueError(f"the hf engine cannot serve {name}: no causal LM with the attention interface")
    odd = set(getattr(config, "layer_types", None) or []) - {"full_attention", "sliding_attention"}
    if odd:
        raise ValueError(f"the hf engine cannot serve {name}: it has {min(odd)} layers")
    windowed = "sliding_attention" in (getattr(config, "layer_types", None) or ["sliding_attention"])
    window = getattr(config, "sliding_window", None)
    if windowed and window is not None and window < max_context:
        raise ValueError(f"the hf engine cannot serve {name} beyond its sliding window of {window} tokens")


@contextmanager
def _evaluating(model: PreTrainedModel) -> Iterator[None]:
    """Sets evaluation mode (no dropout) in its context, and restores the mode afterwards."""
    training = model.training
    if training:
        model.eval()
    try:
        yield
    finally:
        if training:
            model.train()
