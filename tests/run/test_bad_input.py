"""Bad input at the command line: one sentence, exit code 2, before anything heavy is loaded."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rllib_ragen.config.errors import ConfigError
from rllib_ragen.evaluate.__main__ import main as evaluate
from rllib_ragen.models.folder import model_folder
from rllib_ragen.run.__main__ import main as run
from rllib_ragen.run.preflight import check_writable

TOP = Path(__file__).parents[2]
CASES = {
    "unknown environment": (["--env", "sokobon"], "did you mean 'sokoban'"),
    "misspelt key": (["--set", "learner.lrr=1e-4"], "learner.lrr: unknown key; did you mean lr?"),
    "misspelt option": (["--enviroment", "sokoban"], "unrecognized arguments: --enviroment"),
    "a group of one": (["--estimator", "grpo", "--group-size", "1"], "rollout.group_size=1 with credit.estimator=grpo"),
    "too long a context": (["--set", "rollout.max_context_tokens=4096"], "rollout.max_context_tokens=4096"),
    "no such model": (["--model", "no/such/folder"], "model.path: there is no folder"),
    "no such config": (["--config", "none.yaml"], "none.yaml: No such file"),
    "vllm in the driver": (["--engine", "vllm"], "needs a process of its own"),
    "no run to resume": (["--resume", "none"], "none is no run folder"),
    "unknown algorithm": (["--algorithm", "gigp"], "--algorithm: unknown 'gigp'; did you mean gigpo? allowed: "),
    "an algorithm for an estimator": (["--estimator", "dapo"], "credit.estimator: dapo is a whole algorithm"),
    "an algorithm on resume": (["--resume", "none", "--algorithm", "grpo"], "--algorithm cannot be given with it"),
    "adapters of no layer": (
        ["--set", "learner.lora_rank=4", "learner.lora_targets=[q_prj]"],
        "learner.lora_targets: no linear layer is called 'q_prj'; did you mean q_proj?",
    ),
    "hf engines in a process group": (
        ["--engine", "hf", "--num-env-runners", "1", "--set", "vllm.weight_transfer=broadcast"],
        "vllm.weight_transfer=broadcast with rollout.engine=hf",
    ),
    "adapters of a whole model": (
        ["--engine", "vllm", "--num-env-runners", "1", "--set", "vllm.weight_transfer=adapters"],
        "vllm.weight_transfer=adapters with learner.lora_rank=null",
    ),
    "two members on one GPU": (
        [
            *("--engine", "vllm", "--num-env-runners", "1", "--set", "vllm.weight_transfer=broadcast"),
            *("learner.num_gpus_per_learner=0.5", "rollout.num_gpus_per_env_runner=0.5"),
        ],
        "NCCL wants a GPU for each member",
    ),
    "a sender that has a part of the weights": (
        [
            *("--engine", "vllm", "--num-env-runners", "1", "--set", "vllm.weight_transfer=broadcast"),
            *("learner.sharding=fsdp2", "learner.num_learners=2"),
        ],
        "vllm.weight_transfer=broadcast with learner.sharding=fsdp2",
    ),
    "two sources": (["--resume", "none", "--config", "none.yaml"], "--config cannot be given with it"),
}


@pytest.mark.parametrize(("arguments", "says"), CASES.values(), ids=CASES)
def test_one_sentence_and_exit_code_2_without_ray_or_torch(arguments: list[str], says: str, tmp_path: Path) -> None:
    code = (
        "import sys; from rllib_ragen.run.__main__ import main\n"
        "try: status = main(sys.argv[1:])\n"
        "except SystemExit as end: status = end.code\n"
        "heavy = {'ray', 'torch', 'transformers', 'vllm'} & set(sys.modules)\n"
        "sys.exit(f'loaded {heavy}' if heavy else status)"
    )
    environment = {**os.environ, "PYTHONPATH": str(TOP)}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 2, done.stderr
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.rglob("config.yaml")), "a run folder was made for a run that cannot be"


def model_without(tmp_path: Path, *names: str) -> Path:
    folder = tmp_path / "model"
    shutil.copytree(model_folder("tiny"), folder)
    for name in names:
        (folder / name).unlink()
    return folder


FILES = {
    "config.json": "no config.json",
    "model.safetensors": "safetensors",
    "tokenizer.json": "no tokenizer",
    "chat_template.jinja": "no chat template",
}


@pytest.mark.parametrize(("name", "says"), FILES.items(), ids=FILES)
def test_a_model_folder_that_lacks_a_file_says_which(
    name: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = model_without(tmp_path, name)
    assert run(["--model", str(folder), "--results-dir", str(tmp_path / "results")]) == 2
    assert says in capsys.readouterr().err


def test_a_config_that_is_no_json_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = model_without(tmp_path)
    (folder / "config.json").write_text("{")
    assert run(["--model", str(folder), "--results-dir", str(tmp_path / "results")]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_a_results_folder_that_cannot_be_written_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.touch()
    assert run(["--results-dir", str(file / "results")]) == 2
    assert "results_dir: cannot write to" in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_results_folder_without_write_permission_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tmp_path.chmod(0o555)
    assert run(["--results-dir", str(tmp_path)]) == 2
    assert "Permission denied" in capsys.readouterr().err


def test_a_name_that_is_taken_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").mkdir()
    assert run(["--results-dir", str(tmp_path), "--name", "mine"]) == 2
    assert "exists already" in capsys.readouterr().err


def test_evaluate_answers_bad_input_the_same_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate([str(tmp_path)]) == 2
    assert evaluate(["tiny", "--env", "sokobon"]) == 2
    said = capsys.readouterr().err
    assert "config.json" in said
    assert "did you mean 'sokoban'" in said
    with pytest.raises(SystemExit) as end:
        evaluate(["tiny", "--num-instances", "0"])
    assert end.value.code == 2


def test_keys_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--keys"]) == 0
    assert "learner.lr " in capsys.readouterr().out


def test_a_ray_jobs_results_must_not_be_in_its_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")
    with pytest.raises(ConfigError, match=r"results_dir: '.*/results' would be deleted"):
        check_writable(Path("results"))
    assert not list(tmp_path.iterdir())
    check_writable(tmp_path.parent / "results")
