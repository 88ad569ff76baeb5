"""A vLLM engine in a process of its own, because it changes the process it lives in; tests call it by function."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from rllib_ragen.models.chat_format import ChatFormat
from rllib_ragen.models.weight_channel import Rendezvous, TensorSpec
from rllib_ragen.rollout.collect import collect
from rllib_ragen.rollout.engines.base import EngineFailure
from rllib_ragen.rollout.engines.vllm import VLLMEngine
from rllib_ragen.rollout.specs import EpisodeSpec
from rllib_ragen.types import Sampled, Sampling, Trajectory
from tests.patience import PATIENCE_S
from tests.rollout.build import run_raw

T = TypeVar("T")
Requests = Mapping[int, tuple[Sequence[int], Sampling]]
Weights = Mapping[str, npt.NDArray[np.float32]]
_engine: VLLMEngine | None = None


def engine() -> VLLMEngine:
    """The engine of this (child) process."""
    assert _engine is not None
    return _engine


def start(folder: Path, **settings: Any) -> None:
    """Closes the engine there is, and starts one on `folder`."""
    global _engine
    if _engine is not None:
        _engine.close()
    _engine = VLLMEngine(folder, **({"max_context": 512, "max_rows": 32} | settings))


def start_second(folder: Path) -> None:
    """Tries to start one engine too many."""
    VLLMEngine(folder, max_context=512)


def ask(requests: Requests) -> dict[int, Sampled | EngineFailure]:
    """Replies to all requests, submitted at once; the episodes are over afterwards."""
    results = run_raw(engine(), requests)
    for key in requests:
        engine().forget(key)
    return results


def load(weights: Weights, version: int) -> None:
    """Replaces the weights."""
    engine().load_weights({name: torch.from_numpy(array) for name, array in weights.items()}, version)


def load_while_busy(weights: Weights) -> None:
    """Tries to replace the weights while a request is in flight, which is then dropped."""
    engine().add(0, [10, 11], Sampling(5, ()))
    try:
        load(weights, 9)
    finally:
        engine().reset()


def ask_and_count_preemptions(requests: Requests) -> tuple[dict[int, Sampled | EngineFailure], int]:
    """As `ask`, and how often a running request had to give up its cache."""
    core: Any = engine()._engine.engine_core
    scheduler, count = core.engine_core.scheduler, 0
    preempt = scheduler._preempt_request

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal count
        count += 1
        return preempt(*args, **kwargs)

    scheduler._preempt_request = counted
    return ask(requests), count


def join(meeting: Rendezvous) -> None:
    """Becomes the receivers of a weight channel."""
    engine().join_channel(meeting, 1, meeting.host)


def receive(specs: Sequence[TensorSpec], version: int) -> None:
    """Replaces the weights by what the channel's sender sends."""
    engine().receive_weights(specs, version)


def sleep_and_ask(requests: Requests) -> None:
    """Tries to sample in the engine's sleep."""
    engine().sleep()
    ask(requests)


def wake() -> None:
    """Ends the sleep."""
    engine().wake()


def play(folder: Path, make_env: Callable[[], Any], count: int) -> list[Trajectory]:
    """Whole episodes with the model's own tokenizer."""
    chat = ChatFormat.from_folder(folder)
    specs = [EpisodeSpec(f"g{i}", i, i, i) for i in range(count)]
    sampling = Sampling(72, chat.stop_token_ids)
    return collect(specs, engine=engine(), chat=chat, make_env=make_env, sampling=sampling, max_context_tokens=1024)


def break_and_ask() -> None:
    """Breaks the model inside the (working) engine, then asks it something."""
    request = {0: ([10, 11], Sampling(5, ()))}
    assert isinstance(ask(request)[0], Sampled)
    engine()._engine.collective_rpc(lambda worker: setattr(worker.get_model(), "forward", None))
    ask(request)


class VLLMProcess:
    """Runs functions in the child process; their exceptions arrive here."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self._pool = pool

    def call(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """`function(*args, **kwargs)` in the child."""
        return self.begin(function, *args, **kwargs).result(timeout=PATIENCE_S)

    def begin(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> Future[T]:
        """The same, without waiting for it."""
        return self._pool.submit(function, *args, **kwargs)


@contextmanager
def vllm_process() -> Iterator[VLLMProcess]:
    """A child process for one engine at a time."""
    # Read when the child's libraries load: more threads than cores make small models many times slower.
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            yield VLLMProcess(pool)
    finally:
        if before is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = before
