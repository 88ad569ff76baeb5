"""The extension of vLLM's workers that loads new weights in place. Imported by name, in this process or another."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from vllm.model_executor.layers.vocab_parallel_embedding import UnquantizedEmbeddingMethod

from ragen_envs.tree import Tree
from rllib_ragen.faults.private_names.of_torch import ask_for_amx
from rllib_ragen.models.weight_channel import Rendezvous, TensorSpec, WeightChannel

# vLLM's small-matrix kernels use AMX without asking the kernel for leave, which is an illegal instruction in bf16.
ask_for_amx()


class WeightSync:
    """vLLM worker extension (`worker_extension_cls`): its methods are called by name through `collective_rpc`."""

    def ragen_load(self: Any, named: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Replaces all weights. The caller has checked names and shapes: a failure here ruins the engine."""
        self.reload_weights(weights_iterator=iter(named))
        # Tied embeddings: on a CPU the output layer keeps a packed copy of its own, which reload_weights leaves stale.
        for module in self.get_model().modules():
            method = getattr(module, "quant_method", None)
            if isinstance(method, UnquantizedEmbeddingMethod):
                method.process_weights_after_loading(module)

    def ragen_zero_cache(self: Any) -> None:
        """Zeroes the KV cache: a non-finite entry would spoil the next owner of its block, even if masked."""
        for cache in self.model_runner.kv_caches:
            cache.zero_()

    def ragen_join(self: Any, meeting: Tree, first_rank: int, host: str) -> None:
        """Joins a weight channel as a receiver; the engine's workers have ranks from `first_rank`."""
        self.ragen_channel = WeightChannel.join(Rendezvous(**meeting), first_rank + self.rank, host, self.device)

    def ragen_receive(self: Any, specs: list[TensorSpec]) -> None:
        """Replaces all weights, as `ragen_load` does, by those that the channel's sender sends."""
        self.ragen_load(self.ragen_channel.receive(specs))

    def ragen_load_file(self: Any, path: str) -> None:
        """Replaces all weights, as `ragen_load` does, from a safetensors file, because tensors cannot be sent to
        another process.
        """
        self.ragen_load(load_file(Path(path)).items())
