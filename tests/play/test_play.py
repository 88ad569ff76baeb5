"""Playing in the terminal: a person sees what a model sees, and a model replies as it does in rollouts."""

from __future__ import annotations

import io
import re
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from ragen_envs.registry import make_text_env
from ragen_envs.splits import instance_seed
from rllib_ragen.config.load import preset
from rllib_ragen.config.printable import safe
from rllib_ragen.models.chat_format import ChatFormat
from rllib_ragen.models.folder import model_folder
from rllib_ragen.models.lora_settings import LoraSettings
from rllib_ragen.play.__main__ import main
from rllib_ragen.rollout.collect import collect
from rllib_ragen.rollout.engines.hf import HFEngine
from rllib_ragen.rollout.specs import evaluation_specs
from rllib_ragen.run.folder import RunFolder
from rllib_ragen.starpo.checkpoint.manifest import read_manifest, write_manifest
from rllib_ragen.starpo.checks.build_config import build_config
from rllib_ragen.types import Sampling
from tests.tournament.checkpoints import run_with_checkpoints


def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], script: str, *arguments: str) -> str:
    """What is printed when `script` is piped in."""
    monkeypatch.setattr("sys.stdin", io.StringIO(script))
    assert main(["--set", "learner.torch_threads=1", *arguments]) == 0
    return capsys.readouterr().out


def messages(output: str, role: str) -> list[str]:
    """The messages of a role, exactly."""
    parts = re.split(r"^\[(\w+)[^\]\n]*\]\n", output, flags=re.MULTILINE)
    found = zip(parts[1::2], parts[2::2], strict=True)
    return [text.split("\n· ")[0].rstrip("\n") for name, text in found if name == role]


def test_a_person_sees_every_message_of_the_environment_and_can_win(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    limits = {"prompt_style": "full", "max_turns": 3, "max_actions": 40, "max_actions_per_turn": 40}
    env = make_text_env("sokoban", {"height": 6, "width": 6, "num_boxes": 1, "observation": "both"}, limits)
    shown = [env.reset(seed=instance_seed("val", 2), options={"split": "val"})[0]]
    shown.append(env.step("<think></think><answer>jump</answer>")[0])
    solution = env.task.solve()
    assert solution
    win = f"<think>solved</think><answer>{' || '.join(solution)}</answer>"
    settings = [f"env.{name}={value}" for name, value in limits.items()]
    output = run(monkeypatch, capsys, f"jump\n\n{win}\n", "--env", "sokoban", "--instance", "2", "--set", *settings)
    assert messages(output, "system") == [env.system_prompt]
    assert [text.split("\nAnswer with")[0] for text in messages(output, "user")] == shown
    assert messages(output, "assistant") == ["<think></think><answer>jump</answer>", win]
    assert "· ran: no valid action, ignored: jump; reward -0.1" in output
    assert re.search(r"^success \(goal\) after 2 turns, return [\d.]+$", output, re.MULTILINE)


def test_the_end_of_the_script_is_the_end_of_the_game(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output = run(monkeypatch, capsys, "Up\n", "--env", "frozen_lake")
    assert output.splitlines()[-1].startswith("stopped before the end, return")


def test_without_thoughts_a_line_of_actions_has_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output = run(monkeypatch, capsys, "Up || Left\n", "--env", "sokoban", "--set", "env.think=false")
    assert messages(output, "assistant") == ["<answer>Up || Left</answer>"]
    assert "· ran: Up || Left;" in output


@pytest.mark.parametrize("greedy", [False, True])
def test_a_model_replies_as_in_a_rollout_of_the_same_seeds(
    greedy: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chat = ChatFormat.from_folder(model_folder("tiny"))
    model = AutoModelForCausalLM.from_pretrained(model_folder("tiny"), dtype=torch.float32)
    config = build_config(preset("sokoban"))
    (trajectory,) = collect(
        evaluation_specs("val", [3]),
        engine=HFEngine(model, max_context=1024, max_rows=1),
        chat=chat,
        make_env=lambda: make_text_env("sokoban", config.env.task, asdict(config.text_limits())),
        sampling=Sampling(72, chat.stop_token_ids, temperature=0.0 if greedy else 1.0),
        max_context_tokens=1024,
    )
    options = ["--env", "sokoban", "--policy", "tiny", "--instance", "3", *(["--greedy"] if greedy else [])]
    output = run(monkeypatch, capsys, "", *options)
    assert messages(output, "user") == [turn.prompt for turn in trajectory.turns]
    raw = [chat.tokenizer.decode(turn.reply_ids.tolist()) for turn in trajectory.turns]
    assert messages(output, "assistant") == raw
    assert f"({trajectory.stop_reason}) after {len(trajectory.turns)} turns" in output


def test_a_runs_own_model_and_settings_play(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {"env": {"name": "frozen_lake", "max_turns": 1, "max_actions": 2}, "results_dir": str(tmp_path)}
    folder = RunFolder.create(build_config(settings), "run")
    shutil.copytree(model_folder("tiny"), folder.export)
    output = run(monkeypatch, capsys, "", "--policy", str(folder.path))
    # The copy is not called `tiny`, but its prompts stay brief, as they were in training.
    assert len(messages(output, "system")[0]) < 40
    assert messages(output, "user")[0].startswith("Turn 1, 2 actions left")
    assert len(messages(output, "assistant")) == 1
    folder.export.rename(tmp_path / "elsewhere")
    assert main(["--policy", str(folder.path)]) == 2
    assert "has no checkpoint to go on from" in capsys.readouterr().err


def test_an_unfinished_run_of_adapters_plays_with_them_on_its_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {"env": {"name": "frozen_lake", "max_turns": 1}, "learner": {"lora_rank": 2}}
    lora = LoraSettings(rank=2, alpha=6.0, targets=["q_proj"])
    (checkpoint,) = run_with_checkpoints(tmp_path / "run", (3,), config=config, lora=lora)
    arguments = ["--policy", str(tmp_path / "run"), "--greedy"]
    adapted = run(monkeypatch, capsys, "", *arguments)
    plain = run(monkeypatch, capsys, "", "--policy", "tiny", "--env", "frozen_lake", "--greedy")
    assert messages(adapted, "user")[0].partition("left")[2] == messages(plain, "user")[0].partition("left")[2]
    assert messages(adapted, "assistant")[0] != messages(plain, "assistant")[0]
    # The model may have moved since; where it is not found at all, that is said.
    manifest = read_manifest(checkpoint)
    write_manifest(checkpoint, {**manifest, "adapter_base": {**manifest["adapter_base"], "folder": "/moved/away"}})
    assert run(monkeypatch, capsys, "", *arguments) == adapted
    write_manifest(checkpoint, {**manifest, "adapter_base": {**manifest["adapter_base"], "fingerprint": "another"}})
    assert main(arguments) == 2
    assert "the model of its adapters is not (or no longer) in" in capsys.readouterr().err


def test_control_characters_cannot_steer_the_terminal() -> None:
    assert safe("a\x1b[2J\u202eb\rc\u2028\n\t猫") == "a\\x1b[2J\\u202eb\\rc\\u2028\n\t猫"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--env", "sokobann"], "env.name: unknown environment 'sokobann'"),
        (["--policy", "NOWHERE"], f"model.path: there is no folder {str(Path('NOWHERE').absolute())!r}"),
        (["--set", "env.max_turn=3"], "env.max_turn: unknown key; did you mean max_turns?"),
        (["--policy", "tiny", "--set", "rollout.engine=vllm"], "rollout."),
    ],
)
def test_bad_input_is_one_sentence(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"rllib_ragen: {said}")
    assert captured.err.count("\n") == 1 and captured.out == ""


def test_unknown_words_end_with_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--instance", "-1"], ["--split", "training"], ["--polcy", "tiny"]):
        with pytest.raises(SystemExit) as end:
            main(arguments)
        assert end.value.code == 2
