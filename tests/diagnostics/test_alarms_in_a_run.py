"""An alarm in the command: printed, logged, and where its switch says so the end of the run."""

from __future__ import annotations

import json
from pathlib import Path

from tests.run.test_run import command

HOPELESS = [
    # One step is never enough in these validation rooms.
    *("--env", "sokoban", "--engine", "hf", "--iterations", "8", "--num-groups", "2", "--group-size", "2", "--set"),
    *("env.max_turns=1", "env.max_actions=1", "env.max_actions_per_turn=1", "learner.torch_threads=1"),
    *("eval.interval=1", "eval.num_instances=3", "eval.num_test_instances=0", "diagnostics.interval=0"),
    # Which goes on where nothing differs.
    *("credit.estimator=rloo", "credit.filter=none", "learner.num_minibatches=1"),
]


def alarms(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "alarms.jsonl").read_text().splitlines()]


def test_stop_ends_the_run_with_its_reason_and_a_resumed_run_goes_on(tmp_path: Path) -> None:
    where = ["--results-dir", str(tmp_path), "--name", "run"]
    others = ["alarms.reward_std_collapse=off", "alarms.nothing_to_compare=off"]
    code, output = command(*HOPELESS, "alarms.validation_failure=stop", *others, *where)
    assert code == 0, output
    message = "success was below 1% in 5 validations in a row"
    assert f"warning  validation failure at iteration 4: {message}" in output
    assert (
        "Stopped after iteration 4, because alarms.validation_failure=stop and there is a validation failure" in output
    )
    assert f"report         python -m rllib_ragen.report {tmp_path / 'run'}" in output
    expected = [{"iteration": 4, "alarm": "validation_failure", "mode": "stop", "message": message}]
    assert alarms(tmp_path / "run") == expected
    code, output = command("--resume", str(tmp_path / "run"), "--iterations", "6")
    assert code == 0, output
    assert "because all 6 iterations are done" in output, "who resumes has read the reason"
    assert alarms(tmp_path / "run") == expected
