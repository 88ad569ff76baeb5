"""vLLM as the rollout engine, driven step by step so that rollouts stay continuous.

A vLLM engine needs its own process: it reseeds the global random generators, sets torch's thread count and takes the
default process group. Never build one in a learner or in the driver. If several share a process, each has its scheduler
and workers in separate processes.
"""

from __future__ import annotations

import gc
import math
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch

from ragen_envs.tree import Tree
from rllib_ragen.faults.heartbeat import beat
from rllib_ragen.models.load import empty_model, load_config
from rllib_ragen.models.weight_channel import Rendezvous, TensorSpec
from rllib_ragen.rollout.engines.base import BUSY, Engine, EngineDead, EngineFailure
from rllib_ragen.rollout.engines.vllm_core_watch import watch_core
from rllib_ragen.rollout.engines.weight_check import WeightSpec
from rllib_ragen.types import Sampled, Sampling

if TYPE_CHECKING:
    from vllm import RequestOutput, SamplingParams

Result = tuple[int, Sampled | EngineFailure]

_MIN_BATCHED_TOKENS = 8192
"""Least token budget of one pass: chosen freely, so that the prompts of many episodes fit into few passes."""
_MAX_CPU_CACHE_BYTES = 2 << 30
"""Largest default KV cache on a CPU: chosen freely."""
_BLOCK_TOKENS = 32
"""Tokens of a KV-cache block on a CPU: chosen freely."""
_WORKER = "rllib_ragen.rollout.engines.vllm_worker.WeightSync"
_alive: list[VLLMEngine] = []


class VLLMEngine(Engine):
    """An engine with vLLM, in this process unless other processes are asked for."""

    def __init__(
        self,
        model_path: str | Path,
        *,
        max_context: int,
        max_rows: int = 128,
        dtype: Literal["float32", "bfloat16"] = "float32",
        seed: int = 0,
        version: int = 0,
        kv_cache_bytes: int | None = None,
        gpu_memory_utilization: float = 0.9,
        tensor_parallel_size: int = 1,
        distributed_executor_backend: Literal["uni", "mp"] = "uni",
        separate_process: bool = False,
        enforce_eager: bool | None = None,
        can_sleep: bool = False,
        sharers: int = 1,
    ) -> None:
        """Starts vLLM on a transformers model folder (seconds to a minute).

        Args:
            model_path: folder with config and safetensors.
            max_context: tokens of prompt and reply of one episode; at most the model's length.
            max_rows: requests decoded at once; further ones wait.
            dtype: of weights, activations and KV cache.
            seed: of requests that bring none.
            version: policy version of the weights in the folder.
            kv_cache_bytes: size of the KV cache; default: on a CPU what max_rows full contexts need, at most 2 GiB;
                on a GPU what gpu_memory_utilization leaves.
            gpu_memory_utilization: share of a GPU's memory for weights and cache.
            tensor_parallel_size: GPUs one model is spread over; above 1 the backend must be "mp".
            distributed_executor_backend: "uni": the worker in this process; "mp": workers in processes of their own.
                Explicit, because inside a Ray placement group vLLM would choose Ray.
            separate_process: the scheduler too in a process of its own: it works on while this one steps environments.
            enforce_eager: no graph capture and no compilation; default: so on a CPU.
            can_sleep: whether `sleep` frees memory (GPU).
            sharers: engines on the device, with this one: gpu_memory_utilization and the default cache are shared out.

        Raises:
            ImportError: vLLM is not installed.
            RuntimeError: this process already has a vLLM engine, and not both are in processes of their own.
            ValueError: vLLM cannot serve the model so.
        """
        _check_processes(separate_process, tensor_parallel_size > 1 and distributed_executor_backend == "uni")
        on_gpu = torch.cuda.is_available()
        prepare_process(on_gpu)
        from vllm import EngineArgs, LLMEngine

        config = load_config(model_path)
        self.version, self.max_context = version, max_context
        self._spec = _weight_spec(config)
        self.vocab_size = int(config.get_text_config().vocab_size)
        self._in_process = distributed_executor_backend == "uni" and not separate_process
        self._apart, self._asleep = separate_process, False
        self._in_flight: set[int] = set()
        self._rejected: list[Result] = []
        self._spoiled = False  # the KV cache may hold non-finite entries
        cache = kv_cache_bytes or (None if on_gpu else _cpu_cache_bytes(config, dtype, max_context, max_rows, sharers))
        args = EngineArgs(
            model=str(model_path),
            trust_remote_code=False,
            dtype=dtype,
            seed=seed,
            max_model_len=max_context,
            max_num_seqs=max_rows,
            kv_cache_memory_bytes=cache,
            gpu_memory_utilization=gpu_memory_utilization / sharers,
            enforce_eager=not on_gpu if enforce_eager is None else enforce_eager,
            enable_sleep_mode=can_sleep and on_gpu,
            tensor_parallel_size=tensor_parallel_size,
            distributed_executor_backend=distributed_executor_backend,
            **_fixed_args(on_gpu, max_context),
        )
        self._engine = LLMEngine.from_engine_args(args, enable_multiprocessing=separate_process)
        watch_core(self._engine.engine_core)
        _alive.append(self)

    def add(self, key: int, prompt_ids: Sequence[int], sampling: Sampling) -> None:
        from vllm.exceptions import VLLMValidationError

        if self._asleep:
            raise RuntimeError("the engine is asleep: wake() it first")
        if key in self._in_flight:
            raise ValueError(f"episode {key} already has a request in flight")
        prompt = [int(token) for token in prompt_ids]
        error = self.prompt_error(prompt, sampling)
        if not error:
            params = _sampling_params(sampling, self.max_context - len(prompt))
            try:
                self._engine.add_request(str(key), {"prompt_token_ids": prompt}, params)
            except VLLMValidationError as refusal:
                error = f"vLLM refused the request: {refusal}"
        if error:
            self._rejected.append((key, EngineFailure(error)))
        else:
            self._in_flight.add(key)

    def poll(self) -> list[Result]:
        results, self._rejected = self._rejected, []
        while not results and self._in_flight:
            for output in self._step():
                key = int(output.request_id)
                if output.finished and key in self._in_flight:
                    self._in_flight.remove(key)
                    results.append((key, self._result(output)))
        if self._spoiled and not self._in_flight:
            self._drop_cache()
        return results

    def forget(self, key: int) -> None:
        self._rejected = [result for result in self._rejected if result[0] != key]
        if key in self._in_flight:
            self._in_flight.remove(key)
            self._engine.abort_request([str(key)])

    def load_weights(self, named: Mapping[str, torch.Tensor], version: int) -> None:
        def load() -> None:
            if self._in_process:
                self._engine.collective_rpc("ragen_load", args=(list(named.items()),))
            else:
                self._load_by_file(named)

        self._replace_weights(named, load, version)

    def join_channel(self, meeting: Rendezvous, first_rank: int, host: str) -> None:
        """Joins all workers as receivers of a weight channel, with ranks from `first_rank`. Blocks until all have
        joined.

        Raises:
            EngineDead: the others did not join.
        """
        try:
            self._engine.collective_rpc("ragen_join", args=(meeting.to_json(), first_rank, host))
        except Exception as error:
            raise EngineDead(f"vLLM could not join the channel for weights: {error}") from error

    def receive_weights(self, specs: Sequence[TensorSpec], version: int) -> None:
        """Replaces the weights as `load_weights` does, with those that the channel's sender sends."""
        named = {name: torch.empty(shape, dtype=getattr(torch, dtype), device="meta") for name, shape, dtype in specs}
        self._replace_weights(named, lambda: self._engine.collective_rpc("ragen_receive", args=(list(specs),)), version)

    def _replace_weights(self, named: Mapping[str, torch.Tensor], load: Callable[[], object], version: int) -> None:
        """Calls `load` after the checks of names and shapes of `load_weights`, and drops the cache."""
        if self._in_flight:
            raise RuntimeError(BUSY)
        self._spec.check(named)
        self.wake()
        try:
            load()
        except Exception as error:
            raise EngineDead(f"vLLM failed half-way through a weight update: {error}") from error
        self._drop_cache()
        self.version = version

    def sleep(self) -> None:
        if self._in_flight:
            raise RuntimeError("the engine cannot sleep while requests are in flight: reset() or poll() first")
        if not self._asleep:
            self._drop_cache()
            self._engine.sleep(level=1)
            self._asleep = True

    def wake(self) -> None:
        if self._asleep:
            self._engine.wake_up()
            self._asleep = False

    def reset(self) -> None:
        self._engine.abort_request([str(key) for key in self._in_flight])
        self._in_flight.clear()
        self._rejected.clear()
        self._drop_cache()

    def close(self) -> None:
        if self in _alive:
            self._engine.engine_core.shutdown()
            del self._engine
            gc.collect()
            _alive.remove(self)

    def _drop_cache(self) -> None:
        if not self._engine.reset_prefix_cache():
            raise EngineDead("vLLM did not drop its prefix cache: replies would mix old and new weights")
        if self._spoiled:
            self._engine.collective_rpc("ragen_zero_cache")
            self._spoiled = False

    def _step(self) -> list[RequestOutput]:
        beat()
        try:
            outputs: list[Any] = self._engine.step()
        except Exception as error:
            # Whatever went wrong in a step (a dead worker, a crash of the sampler), the engine stays broken.
            raise EngineDead(f"vLLM died: {type(error).__name__}: {error}") from error
        return outputs

    def _result(self, output: RequestOutput) -> Sampled | EngineFailure:
        reply = output.outputs[0]
        if reply.finish_reason not in ("stop", "length"):
            return EngineFailure(f"vLLM ended the request with {reply.finish_reason!r}")
        assert reply.logprobs is not None
        tokens = list(reply.token_ids)
        logprobs = [entry[token].logprob for token, entry in zip(tokens, reply.logprobs, strict=True)]
        if not all(map(math.isfinite, logprobs)):
            self._spoiled = True
            return EngineFailure("the model gave non-finite logits")
        return Sampled(tokens, logprobs, reply.finish_reason == "stop", self.version, output.num_cached_tokens or 0)

    def _load_by_file(self, named: Mapping[str, torch.Tensor]) -> None:
        from safetensors.torch import save_file

        shm = Path("/dev/shm")
        with tempfile.TemporaryDirectory(dir=shm if shm.is_dir() else None) as folder:
            path = Path(folder) / "weights.safetensors"
            # Tied entries share memory, which safetensors refuses.
            first_only = {name: tensor for name, tensor in named.items() if self._is_first(name, named)}
            save_file({name: tensor.detach().cpu().contiguous() for name, tensor in first_only.items()}, path)
            self._engine.collective_rpc("ragen_load_file", args=(str(path),))

    def _is_first(self, name: str, named: Mapping[str, torch.Tensor]) -> bool:
        first = self._spec.twins.get(name, name)
        return name == first or first not in named


def _check_processes(separate: bool, too_many_workers: bool) -> None:
    """Checks that the engine can run beside others of this process, and its workers in the processes asked for."""
    if _alive and not (separate and all(engine._apart for engine in _alive)):
        raise RuntimeError("this process already has a vLLM engine: close() it first, or give both separate_process")
    if too_many_workers:
        raise ValueError("tensor_parallel_size > 1 needs distributed_executor_backend 'mp'")


def prepare_process(on_gpu: bool) -> None:
    """Sets the environment variables that vLLM reads when it is imported, unless the user has set them."""
    settings = {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    if not on_gpu:
        # Compilation takes longer than a small run; binding threads to cores fights with Ray's actors.
        settings |= {"TORCHDYNAMO_DISABLE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    for name, value in settings.items():
        os.environ.setdefault(name, value)


def _fixed_args(on_gpu: bool, max_context: int) -> Tree:
    """Returns the engine arguments that have no setting."""
    # Seeded requests and chunked prefill together crash vLLM's CPU backend: prompts are taken whole there.
    cpu_only: Tree = {} if on_gpu else {"enable_chunked_prefill": False, "block_size": _BLOCK_TOKENS}
    return {
        "max_num_batched_tokens": max(_MIN_BATCHED_TOKENS, max_context),
        "enable_prefix_caching": True,
        "skip_tokenizer_init": True,
        "generation_config": "vllm",
        "logprobs_mode": "processed_logprobs",
        "worker_extension_cls": _WORKER,
        "disable_log_stats": True,
        **cpu_only,
    }


def _sampling_params(sampling: Sampling, room: int) -> SamplingParams:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    return SamplingParams(
        max_tokens=min(room, sampling.max_tokens),
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        seed=sampling.seed,
        stop_token_ids=list(sampling.stop_token_ids),
        ignore_eos=True,
        logprobs=0,
        detokenize=False,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


def _weight_spec(config: object) -> WeightSpec:
    """Returns names and shapes of the model's weights, without loading it."""
    return WeightSpec.of(empty_model(config))


def _cpu_cache_bytes(config: Any, dtype: str, max_context: int, max_rows: int, sharers: int) -> int:
    """Returns the bytes of max_rows full contexts, at most an equal share of 2 GiB but at least two contexts."""
    text = config.get_text_config()
    head = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    per_token: int = 2 * text.num_hidden_layers * text.num_key_value_heads * head * (4 if dtype == "float32" else 2)
    context = (math.ceil(max_context / _BLOCK_TOKENS) + 1) * _BLOCK_TOKENS * per_token
    return max(min(max_rows * context, _MAX_CPU_CACHE_BYTES // sharers), 2 * context)
