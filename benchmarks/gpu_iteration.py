"""What a whole iteration costs with vLLM and the learner on one GPU: tokens per second, weight transfer, log-prob gap.

    python -m benchmarks.gpu_iteration --out gpu.json          # a random model of the shape of Qwen2.5-0.5B, bf16
    python -m benchmarks.gpu_iteration --cpu                   # the same path at toy size, to see that it runs

The model is random, so replies say nothing and run to their limit: fixed work, whatever the machine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

import rllib_ragen.models.tiny

TINY = Path(rllib_ragen.models.tiny.__file__).parent / "checkpoint"
SHOWN = ("reply_tokens_per_s", "time_rollout_s", "time_update_s", "time_sync_s", "logprob_gap_mean", "logprob_gap_max")


def save_model(folder: Path, toy: bool) -> int:
    """Saves a random Qwen2 with the embedded model's tokenizer → its number of parameters."""
    shape: dict[str, Any] = (
        {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "vocab_size": 1024}
        if toy
        else {"hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "vocab_size": 151936}
    )
    heads: dict[str, Any] = {"num_attention_heads": 2 if toy else 14, "num_key_value_heads": 1 if toy else 2}
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(Qwen2Config(**shape, **heads, max_position_embeddings=4096, tie_word_embeddings=True))
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(TINY, trust_remote_code=False).save_pretrained(folder)
    return int(model.num_parameters())


def run_config(folder: Path, cpu: bool) -> Any:
    """Returns the config of one runner with vLLM beside a learner in the driver, which share a GPU if there is one."""
    from rllib_ragen.config.schema import RunConfig

    share = 0.0 if cpu else 0.5
    return RunConfig.model_validate(
        {
            "model": {"path": str(folder), "dtype": "bfloat16"},
            "rollout": {
                "engine": "vllm", "num_env_runners": 1, "num_gpus_per_env_runner": share,
                "num_groups": 4 if cpu else 32, "group_size": 4, "max_reply_tokens": 16 if cpu else 128,
                "max_context_tokens": 512 if cpu else 2048,
            },
            "vllm": {"gpu_memory_utilization": 0.4},
            "learner": {"num_gpus_per_learner": share, "lr": 1e-6, "microbatch_tokens": 16384},
            "env": {"prompt_style": "brief"},
        }
    )  # fmt: skip


def measure(folder: Path, cpu: bool, iterations: int) -> dict[str, Any]:
    """Measures the medians over the iterations after the first."""
    from rllib_ragen.run.start_ray import start_ray
    from rllib_ragen.starpo.config import StarPOConfig

    run = run_config(folder, cpu)
    start_ray(run)
    algo = StarPOConfig.from_run_config(run).build_algo()
    results = [algo.train()["starpo"] for _ in range(iterations + 1)][1:]
    tokens = statistics.median(
        result["context_tokens_mean"] * run.rollout.num_groups * run.rollout.group_size / result["time_update_s"]
        for result in results
    )
    algo.stop()
    row = {name: float(statistics.median(result[name] for result in results)) for name in SHOWN}
    return {"learner_tokens_per_s": tokens, **row}


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--cpu", action="store_true", help="toy size, without a GPU")
    parser.add_argument("--iterations", type=int, default=5, help="measured iterations, after one warm-up")
    parser.add_argument("--out", type=Path, help="JSON file")
    args = parser.parse_args()
    if not args.cpu and not torch.cuda.is_available():
        parser.error("no GPU here; --cpu runs the same path at toy size")
    with tempfile.TemporaryDirectory() as folder:
        parameters = save_model(Path(folder), args.cpu)
        row = measure(Path(folder), args.cpu, args.iterations)
    device = "cpu" if args.cpu else torch.cuda.get_device_name()
    row = {"device": device, "parameters": parameters, "iterations": args.iterations, **row}
    print(json.dumps(row))
    if args.out:
        args.out.write_text(json.dumps(row, indent=2) + "\n")


if __name__ == "__main__":
    main()
