"""What else could explain a trained policy's success: the untrained model, made to begin its replies as a plan begins,
and the same compute spent on further demonstrations.

    python -m benchmarks.explanations --env sokoban --seconds 600 --out docs/figures/sokoban_explanations.json

Everything is measured on the run's own test instances, at T = 1 and greedy, under the settings of `run --env`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

import torch
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from ragen_envs import make_text_env
from ragen_envs.instances import evaluated_numbers
from rllib_ragen.config.load import preset
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.models.chat_format import ChatFormat
from rllib_ragen.models.folder import model_folder
from rllib_ragen.models.quiet_libraries import quieten
from rllib_ragen.models.tiny.demonstrations import Recipe, make_samples
from rllib_ragen.models.tiny.make import Phase, train
from rllib_ragen.models.tiny.teacher import Lesson
from rllib_ragen.rollout.collect import collect
from rllib_ragen.rollout.engines.hf import HFEngine
from rllib_ragen.rollout.specs import evaluation_specs
from rllib_ragen.rollout.statistics import rollout_statistics
from rllib_ragen.starpo.checks.build_config import build_config
from rllib_ragen.types import Sampling

FORMS = {"free": "", "format forced": "<think>", "plan forced": "<think>Player"}
"""Prefixes of replies, by name."""
_RECIPE_NUMBER = 1_000
"""Number of the recipe of the further demonstrations: chosen freely, above those of the embedded model."""
_CHUNK = 1_000
"""Demonstrations of the probe that measures the cost of one: chosen freely."""

Rates = dict[str, float]


def evaluate(model: LlamaForCausalLM, folder: Path, config: RunConfig, prefix: str, split: str, count: int) -> Rates:
    """Evaluates → success at T = 1 and greedy, share of valid replies, and number of different instances."""
    chat = ChatFormat.from_folder(folder, reply_prefix=prefix)
    numbers = evaluated_numbers(config.env.name, config.env.task, split, count)
    found: Rates = {"instances": len(numbers)}
    for way, temperature in (("T = 1", 1.0), ("greedy", 0.0)):
        trajectories = collect(
            evaluation_specs(split, numbers),
            engine=HFEngine(model, max_context=config.rollout.max_context_tokens, max_rows=128),
            chat=chat,
            make_env=lambda: make_text_env(config.env.name, config.env.task, asdict(config.text_limits())),
            sampling=Sampling(config.rollout.max_reply_tokens, chat.stop_token_ids, temperature=temperature),
            max_context_tokens=config.rollout.max_context_tokens,
        )
        statistics = rollout_statistics(trajectories)
        found[way] = round(statistics["success"], 4)
        found[f"valid, {way}"] = round(statistics["valid_ratio"], 4)
    return found


def load(folder: Path) -> LlamaForCausalLM:
    """Loads the model of a folder, in float32."""
    model: LlamaForCausalLM = LlamaForCausalLM.from_pretrained(
        folder, dtype=torch.float32, use_safetensors=True, local_files_only=True, trust_remote_code=False
    )
    model.eval()
    return model


def supervised(folder: Path, config: RunConfig, seconds: float, out: Path) -> dict[str, float]:
    """Continues training for `seconds` of CPU on the solver's demonstrations of the task itself → its costs.

    The demonstrations are always new; making them takes a tenth of the time.
    """
    model = load(folder)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    limits = {key: value for key, value in asdict(config.text_limits()).items() if key != "prompt_style"}
    started, count, tokens = time.process_time(), 0, 0.0
    # A first chunk tells how many demonstrations the time is good for; then one epoch with its own schedule.
    probe = Recipe(config.env.name, _CHUNK, Lesson(0.1), tuple(config.env.task.items()), tuple(limits.items()), 999)
    samples = make_samples([probe], tokenizer, 1)
    begun = time.process_time()
    train(load(folder), samples[:320], Phase("pace", (probe,), 6e-4, 16), 0)
    pace = (time.process_time() - begun) / 320
    count = int(seconds / pace)
    recipe = Recipe(
        config.env.name, count, Lesson(0.1), tuple(config.env.task.items()), tuple(limits.items()), _RECIPE_NUMBER
    )
    samples = make_samples([recipe], tokenizer, 1)
    begun = time.process_time()
    made = train(model, samples, Phase("further", (recipe,), 1e-3, 16), 0)
    tokens = made["tokens"]
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    return {
        "demonstrations": len(samples),
        "tokens": tokens,
        "cpu_seconds": round(time.process_time() - begun, 1),
        "cpu_seconds_in_all": round(time.process_time() - started, 1),
    }


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--env", default="sokoban", help="the task, with the settings of tune_configs/")
    parser.add_argument("--model", default="tiny", help="`tiny` or a model folder")
    parser.add_argument("--seconds", type=float, default=0, help="CPU seconds of further demonstrations; 0: none")
    parser.add_argument("--split", default="test", help="val or test")
    parser.add_argument("--num-instances", type=int, default=256, help="how many different ones")
    parser.add_argument("--out", type=Path, help="JSON to write")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as of `run`")
    options = parser.parse_args()
    torch.set_num_threads(1)
    quieten()
    given: dict[str, object] = {}
    for assignment in options.set:
        key, _, value = assignment.partition("=")
        section, _, name = key.rpartition(".")
        place = given
        for part in section.split("."):
            place = place.setdefault(part, {})  # type: ignore[assignment]
        place[name] = json.loads(value)
    config = build_config(preset(options.env), given, {"env": {"prompt_style": "brief"}})
    folder = model_folder(options.model)
    model = load(folder)
    found: dict[str, object] = {}
    for name, prefix in FORMS.items():
        found[name] = evaluate(model, folder, config, prefix, options.split, options.num_instances)
        print(name, found[name], flush=True)
    if options.seconds:
        with tempfile.TemporaryDirectory() as draft:
            cost = supervised(folder, config, options.seconds, Path(draft))
            taught = load(Path(draft))
            found["further demonstrations"] = cost | evaluate(
                taught, Path(draft), config, "", options.split, options.num_instances
            )
        print("further demonstrations", found["further demonstrations"], flush=True)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
