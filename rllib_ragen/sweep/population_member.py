"""A member of a population: a run that Tune stops, and resumes from its own or another member's weights."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from ragen_envs.tree import Tree
from rllib_ragen.config.load import save_config
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.run.folder import CONFIG_FILE, RunFolder, SavedState
from rllib_ragen.sweep.trial import RESULT_FILE, finish, load_spec, measures, run_config, run_folder_of, train

if TYPE_CHECKING:
    from rllib_ragen.run.evaluation import Evaluation

OWNER_FILE = "member.json"
"""Name of a checkpoint's file with its owner, iteration, and the values that it was trained with."""
EXCHANGES_FILE = "exchanges.jsonl"
_MEMBER = "member_"


def member_name(number: int) -> str:
    """Returns the trial's folder name, which stays the same when a member takes over another's configuration."""
    return f"{_MEMBER}{number:04}"


def member_number(trial_folder: str) -> int:
    """Returns the number in `member_name`."""
    return int(Path(trial_folder).name.removeprefix(_MEMBER))


def play_member(assignment: Tree, sweep: Path) -> None:
    """Runs a member, as the Tune trainable of {number, values}; `number` is another member's after an exchange.

    Reports after every validation, with a checkpoint, and at the end, as `play_trial` does.
    """
    from ray import tune

    values = assignment["values"]
    number = member_number(tune.get_context().get_trial_dir())
    seed = load_spec(sweep).seeds[0]
    path = run_folder_of(sweep, number, seed)
    if (path / RESULT_FILE).is_file():
        tune.report(json.loads((path / RESULT_FILE).read_text()))
        return
    # Members with equal seeds would play the same rooms with the same samples: fewer members than they seem.
    config = run_config(sweep, values, seed + number, path)
    # Each validation is followed by a checkpoint: what Tune judges by is what it can hand on.
    config.checkpoint_interval = config.eval.interval
    with TemporaryDirectory() as temporary:
        received = Path(temporary) / "received"
        if (checkpoint := tune.get_checkpoint()) is not None:
            checkpoint.to_directory(str(received))
        start = _start(config, path, number, values, received if received.is_dir() else None)
    found: list[Evaluation] = []

    def on_evaluation(evaluations: Sequence[Evaluation]) -> None:
        if evaluations[0].split == "val":
            found[:] = evaluations

    def on_save(saved: SavedState) -> None:
        # The last one is reported by its end.
        if found and found[0].iteration == saved.iteration < config.iterations:
            owner = {"number": number, "iteration": saved.iteration, "values": values}
            (saved.path / OWNER_FILE).write_text(json.dumps(owner))
            handed_on = tune.Checkpoint.from_directory(str(saved.path))
            tune.report({**measures(found), "finished": False, "stopped": ""}, checkpoint=handed_on)

    result = train(config, start, on_evaluation, on_save)
    finish(path, result)
    tune.report(result)


def _start(config: RunConfig, path: Path, number: int, values: Tree, received: Path | None) -> SavedState | None:
    """Returns the checkpoint to continue from, in the member's own folder; None: from the beginning."""
    if received is None:
        shutil.rmtree(path, ignore_errors=True)
        return None
    owner = json.loads((received / OWNER_FILE).read_text())
    folder, iteration = RunFolder.open(path), int(owner["iteration"])
    for later in folder.checkpoints():
        if later.iteration > iteration:
            shutil.rmtree(later.path)
    if owner["number"] != number:
        _note(path, iteration, owner, values)
        save_config(config, path / CONFIG_FILE)

    def copy(final: Path) -> None:
        shutil.copytree(received, final, dirs_exist_ok=True)

    return SavedState(iteration, folder.save_checkpoint(iteration, copy, config.keep_checkpoints))


def _note(path: Path, iteration: int, owner: Tree, values: Tree) -> None:
    row = {"iteration": iteration, "from": owner["number"], "its_values": owner["values"], "values": values}
    with (path / EXCHANGES_FILE).open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
