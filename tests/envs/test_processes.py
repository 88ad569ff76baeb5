"""Instances and outcomes are the same in every process, whatever the hash seed and whatever ran before."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ragen_envs import env_names

ROOT = Path(__file__).resolve().parents[2]
EPISODES = """
import hashlib, sys
import numpy as np
from ragen_envs import make_text_env
from ragen_envs.reply import format_reply

def episodes(name, seeds):
    env, seen = make_text_env(name), hashlib.sha256()
    for split in ("train", "val", "test"):
        for seed in seeds:
            text, _ = env.reset(seed=seed, options={"split": split, "outcome_seed": seed + 1})
            rng, done = np.random.default_rng(seed), False
            seen.update(repr((env.system_prompt, text, env.task.solve())).encode())
            while not done:
                step = env.step(format_reply([env.task.random_action(rng) for _ in range(3)], ""))
                seen.update(repr(step).encode())
                done = step[2] or step[3]
    return seen.hexdigest()
"""


def _in_fresh_process(hash_seed: str, prelude: str) -> dict[str, str]:
    code = f"{EPISODES}\n{prelude}\nfor name in sys.argv[1:]: print(name, episodes(name, range(12)))"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [sys.executable, "-c", code, *env_names()],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    return dict(line.split() for line in run.stdout.splitlines())


@pytest.fixture(scope="module")
def reference() -> dict[str, str]:
    return _in_fresh_process("0", "")


def test_episodes_do_not_depend_on_the_hash_seed(reference: dict[str, str]) -> None:
    assert set(reference) == set(env_names())
    assert _in_fresh_process("12345", "") == reference


def test_episodes_do_not_depend_on_what_ran_before(reference: dict[str, str]) -> None:
    prelude = "np.random.seed(3); [episodes(name, range(5, 9)) for name in reversed(sys.argv[1:])]"
    assert _in_fresh_process("7", prelude) == reference


def test_envs_import_neither_ray_nor_torch_nor_transformers() -> None:
    modules = "ragen_envs, ragen_envs.baselines, ragen_envs.certify, ragen_envs.presets"
    code = f"import {modules}, sys; print([m for m in ('ray', 'torch', 'transformers', 'vllm') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert run.stdout.strip() == "[]"
