"""A model folder that a loader would stumble over: one sentence, exit code 2, before Ray."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedTokenizerFast

from rllib_ragen.config.command_line import run_command
from rllib_ragen.evaluate.__main__ import main as evaluate
from rllib_ragen.models.folder import model_folder, position_limit
from rllib_ragen.play.__main__ import main as play
from rllib_ragen.run.__main__ import parse, plan
from rllib_ragen.starpo.config import StarPOConfig
from rllib_ragen.sweep.__main__ import main as sweep
from rllib_ragen.tournament.__main__ import main as tournament
from tests.patience import PATIENCE_S

Break = Callable[[Path], object]
LFS = f"version https://git-lfs.github.com/spec/v1\noid sha256:{64 * '4'}\nsize 2507192\n"
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(model_folder("tiny"), tmp_path / "model"))


def write(name: str, text: str | bytes) -> Break:
    data = text.encode() if isinstance(text, str) else text
    return lambda folder: (folder / name).write_bytes(data)


def config(**changes: Any) -> Break:
    return change("config.json", **changes)


def change(name: str, **changes: Any) -> Break:
    def broken(folder: Path) -> None:
        tree = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps({**tree, **changes}))

    return broken


def weights(work: Callable[[dict[str, torch.Tensor]], object]) -> Break:
    def broken(folder: Path) -> None:
        tensors = load_file(folder / WEIGHTS)
        work(tensors)
        save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})

    return broken


def both(*breaks: Break) -> Break:
    return lambda folder: [one(folder) for one in breaks]


def parts(folder: Path, *, drop: int | None = None, lie: bool = False) -> None:
    """The weights in two files and an index, one of which is missing, or lacks what the index says."""
    tensors = load_file(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    names = sorted(tensors)
    where: dict[str, str] = {}
    for number in range(2):
        file = f"model-{number + 1:05}-of-00002.safetensors"
        own = names[number::2]
        where |= dict.fromkeys(own, file)
        if number != drop:
            save_file({name: tensors[name] for name in own[lie:]}, folder / file, metadata={"format": "pt"})
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": where}))


def truncate(size: int) -> Break:
    return lambda folder: (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:size])


def more_tokens(folder: Path) -> None:
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    tokenizer.add_tokens([f"<|more {number}|>" for number in range(528)])
    tokenizer.save_pretrained(folder)


def templates(**named: str) -> Break:
    def broken(folder: Path) -> None:
        (folder / "chat_template.jinja").unlink()
        listed = [{"name": name, "template": text} for name, text in named.items()]
        change("tokenizer_config.json", chat_template=listed)(folder)

    return broken


def no_end(folder: Path) -> None:
    """Neither the template, nor the tokenizer, nor the generation config ends a reply."""
    (folder / "chat_template.jinja").write_text("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}:")
    (folder / "generation_config.json").unlink()
    change("tokenizer_config.json", eos_token=None)(folder)


def dangling(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    (folder / WEIGHTS).symlink_to("../../blobs/0123")


YARN = {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 256, "rope_theta": 1e4}
BROKEN: dict[str, tuple[Break, str]] = {
    **{
        f"LFS pointer: {name}": (write(name, LFS), f"{name} is a Git-LFS pointer")
        for name in (WEIGHTS, "config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
    },
    **{
        f"empty: {name}": (write(name, ""), f"{name} is empty")
        for name in (WEIGHTS, "config.json", "tokenizer.json", "generation_config.json", "chat_template.jinja")
    },
    **{
        f"a list: {name}": (write(name, "[1]"), f"{name} must hold a JSON object")
        for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json")
    },
    "no JSON": (write("generation_config.json", "{"), "generation_config.json cannot be read"),
    "no UTF-8": (write("tokenizer_config.json", b"\xff\xfe"), "tokenizer_config.json cannot be read"),
    "nested": (write("generation_config.json", "[" * 100_000), "generation_config.json cannot be read"),
    "link to nothing": (dangling, "is a link to a file that is not there"),
    "eos is a text": (change("generation_config.json", eos_token_id="</s>"), "eos_token_id in"),
    "eos beyond": (change("generation_config.json", eos_token_id=[2, 528]), "eos_token_id=528 in"),
    "a part is missing": (lambda folder: parts(folder, drop=1), "model-00002-of-00002.safetensors is missing"),
    "a part lacks": (lambda folder: parts(folder, lie=True), "which model.safetensors.index.json says it holds"),
    "no weight map": (both(parts, write(INDEX, "{}")), "has no weight_map"),
    "a part elsewhere": (both(parts, write(INDEX, '{"weight_map": {"a": "../x"}}')), "not in its folder"),
    "other file names": (lambda folder: (folder / WEIGHTS).rename(folder / "weights.safetensors"), "as safetensors"),
    "header cut off": (truncate(100), f"{WEIGHTS} cannot be read"),
    "weights cut off": (truncate(2_000_000), f"{WEIGHTS} cannot be read"),
    "header too long": (write(WEIGHTS, struct.pack("<Q", 2**40) + b"{}"), f"{WEIGHTS} cannot be read"),
    **{
        f"quantised: {kind}": (config(quantization_config={"quant_method": kind}), "is quantised")
        for kind in ("gptq", "awq", "bitsandbytes", "fp8")
    },
    "integer weights": (
        weights(lambda ts: ts.update({"model.norm.weight": ts["model.norm.weight"].to(torch.int8)})),
        "is of type I8",
    ),
    "too short": (config(max_position_embeddings=512), "model's length of 512"),
    "no number of positions": (config(max_position_embeddings="many"), "is no number of positions"),
    "stretched, and too short": (config(rope_parameters=YARN), "model's length of 512"),
    "stretched by nothing": (config(rope_parameters={**YARN, "factor": "two"}), "rope scaling"),
    "sliding window": (
        config(model_type="mistral", architectures=["MistralForCausalLM"], sliding_window=256),
        "sliding_window=256",
    ),
    "some layers slide": (
        config(
            model_type="qwen2",
            architectures=["Qwen2ForCausalLM"],
            use_sliding_window=True,
            sliding_window=128,
            max_window_layers=1,
        ),
        "sliding_window=128",
    ),
    "unknown architecture": (config(model_type="llamma"), "llamma"),
    "no model type": (config(model_type=None, architectures=None), "no usable config.json"),
    "a classifier": (config(architectures=["LlamaForSequenceClassification"]), "is no causal language model"),
    "an encoder": (config(model_type="bert", architectures=["BertForMaskedLM"]), "is no causal language model"),
    "an unnamed encoder": (config(model_type="bert", architectures=None), "sees tokens ahead"),
    "encoder and decoder": (config(model_type="t5", architectures=None), "is no causal language model"),
    "no lm_head": (config(tie_word_embeddings=False), "lacks the weight lm_head.weight"),
    "no norm": (weights(lambda ts: ts.pop("model.norm.weight")), "lacks the weight model.norm.weight"),
    "other vocabulary": (config(vocab_size=600), "has in another shape the weight model.embed_tokens.weight"),
    "other width": (config(intermediate_size=128), "in another shape"),
    "tokens beyond": (more_tokens, "but the model embeds 528 tokens (0 to 527)"),
    "no tokenizer.json of any kind": (write("tokenizer.json", "{}"), "has no usable tokenizer"),
    "templates without a default": (templates(rag="{{ messages }}", tool_use="x"), "none is called default"),
    "a template that is none": (write("chat_template.jinja", "{% for %}"), "chat template"),
    "a template that fails": (write("chat_template.jinja", "{{ messages[9].content + 1 }}"), "chat template refuses"),
    "nothing ends a reply": (no_end, "names an end-of-turn token"),
}


@pytest.mark.parametrize(("broken", "says"), BROKEN.values(), ids=BROKEN)
def test_a_broken_model_is_one_sentence(
    broken: Break, says: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken(folder)
    options = parse(["--model", str(folder), "--results-dir", str(tmp_path / "results")])
    assert run_command(lambda: bool(plan(options))) == 2
    told = capsys.readouterr().err
    assert says in told and told.count("\n") == 1 and told.startswith("rllib_ragen: ")
    assert "model.path" in told or "rollout.max_context_tokens" in told
    assert not list((tmp_path / "results").glob("*")), "a run folder was made for a run that cannot be"
    with pytest.raises(ValueError, match=r"^(model\.path|rollout\.max_context_tokens)"):
        StarPOConfig().llm(model=str(folder)).rollout(engine="hf").validate()


def test_weights_in_parts_and_templates_with_a_default_are_taken(folder: Path) -> None:
    template = (folder / "chat_template.jinja").read_text()
    both(parts, templates(default=template, other="{{ 1 }}"))(folder)
    StarPOConfig().llm(model=str(folder)).rollout(engine="hf").validate()


@pytest.mark.parametrize("command", ["evaluate", "play", "tournament", "sweep"])
def test_every_command_says_the_same(
    command: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more_tokens(folder)
    file = tmp_path / "sweep.yaml"
    file.write_text("name: s\nbase: {model: {path: model}}\nspace: {learner.lr: {choice: [1e-4, 1e-5]}}\n")
    commands: dict[str, Callable[[], int]] = {
        "evaluate": lambda: evaluate([str(folder), "--env", "sokoban"]),
        "play": lambda: play(["--policy", str(folder)]),
        "tournament": lambda: tournament([str(folder), "--env", "kuhn_poker", "--out", str(tmp_path / "t.json")]),
        "sweep": lambda: sweep([str(file), "--results-dir", str(tmp_path / "results")]),
    }
    assert commands[command]() == 2
    told = capsys.readouterr().err
    assert "they do not belong together" in told and told.count("\n") == 1


SPY = """
from pathlib import Path
Path({marker!r}).write_text("ran")
from transformers import LlamaConfig as Spied, LlamaForCausalLM as SpiedModel, PreTrainedTokenizerFast as SpiedTokenizer
"""


@pytest.mark.parametrize("command", ["run", "evaluate", "play", "tournament", "sweep", "gradients", "report"])
def test_the_code_in_a_model_folder_never_runs_whatever_is_answered(command: str, folder: Path, tmp_path: Path) -> None:
    """Asked `Do you wish to run the custom code? [y/N]`, a `y` on stdin would run it."""
    marker = tmp_path / "ran"
    (folder / "spy.py").write_text(SPY.format(marker=str(marker)))
    autos = {"AutoConfig": "spy.Spied", "AutoModelForCausalLM": "spy.SpiedModel"}
    config(model_type="spied", auto_map=autos)(folder)
    change(
        "tokenizer_config.json",
        tokenizer_class="SpiedTokenizer",
        auto_map={"AutoTokenizer": ["spy.SpiedTokenizer"] * 2},
    )(folder)
    (tmp_path / "sweep.yaml").write_text(
        "name: s\nbase: {model: {path: model}}\nspace: {learner.lr: {choice: [1e-4]}}\n"
    )
    run_folder = tmp_path / "run"
    (run_folder / "checkpoints" / "iteration_000001").mkdir(parents=True)
    (run_folder / "config.yaml").write_text("model: {path: ../model}\nname: run\n")
    (run_folder / "progress.jsonl").write_text('{"iteration": 1, "time_s": 1.0, "success": 0.5}\n')
    words = {
        "run": ["--model", "model"],
        "evaluate": ["model", "--env", "sokoban"],
        "play": ["--policy", "model"],
        "tournament": ["model", "--env", "kuhn_poker"],
        "sweep": ["sweep.yaml"],
        "gradients": ["run"],
        "report": ["run"],
    }
    done = subprocess.run(
        [sys.executable, "-m", f"rllib_ragen.{command}", *words[command]],
        cwd=tmp_path, input="y\n" * 20, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert not marker.exists()
    assert "[y/N]" not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    if command != "report":
        assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr


@pytest.mark.parametrize(
    ("stated", "limit"),
    [
        ({}, None),
        ({"max_position_embeddings": 100}, 100),
        ({"n_positions": 50, "max_position_embeddings": 100}, 50),
        ({"max_position_embeddings": 100, "rope_scaling": {"type": "linear", "factor": 4}}, 400),
        ({"max_position_embeddings": 100, "rope_scaling": {"rope_type": "dynamic", "factor": 2.5}}, 250),
        (
            {
                "max_position_embeddings": 160,
                "rope_scaling": {"rope_type": "yarn", "factor": 2, "original_max_position_embeddings": 40},
            },
            80,
        ),
        (
            {
                "max_position_embeddings": 100,
                "rope_scaling": {"rope_type": "llama3", "factor": 8, "original_max_position_embeddings": 10},
            },
            100,
        ),
        (
            {
                "max_position_embeddings": 100,
                "rope_parameters": {
                    "full_attention": {"rope_type": "linear", "factor": 2},
                    "sliding_attention": {"rope_type": "default"},
                },
            },
            100,
        ),
    ],
)
def test_positions_are_counted_with_their_scaling(stated: dict[str, Any], limit: int | None) -> None:
    assert position_limit(stated) == limit
