"""What was registered in Python travels with a config, to actors and to Tune's trials."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pytest
from ray import cloudpickle

from ragen_envs.games.rock_paper_scissors import RockPaperScissors
from rllib_ragen import (
    Estimator,
    StarPOConfig,
    register_estimator,
    register_filter,
    register_loss,
    register_reward,
    register_text_env,
)
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.credit.estimator import Credit
from rllib_ragen.credit.filter_rules import GroupRanking
from rllib_ragen.run.users_modules import SET_IN_RAY_JOBS, users_modules
from rllib_ragen.types import FloatArray, Trajectory
from tests.doors.build import ESTIMATOR, TOP, WORLD
from tests.patience import PATIENCE_S

READS = """
import sys
from ray import cloudpickle
from rllib_ragen.starpo.config import StarPOConfig
with open(sys.argv[1], "rb") as file:
    config = cloudpickle.load(file)
if isinstance(config, dict):
    config = StarPOConfig().update_from_dict(config)
from rllib_ragen.credit.filter_rules import FILTERS
from rllib_ragen.credit.registry import make_estimator
from rllib_ragen.learner.losses.registry import LOSSES
from ragen_envs.games.registry import make_game
run = config.to_run_config()
from rllib_ragen.credit.rewards.registry import make_rewards
print(type(make_estimator(run.credit)).__name__, FILTERS.resolve(run.credit.filter, "credit.filter")(None),
      LOSSES.resolve(run.learner.loss, "learner.loss")(3),
      make_game(config.game()).title, [one.call(None) for one in make_rewards(run)[1]])
"""


@pytest.mark.parametrize("way", ["config", "dict"])
def test_another_process_knows_what_the_config_names(way: str, folder: Path) -> None:
    """Classes and functions of this test are in no module that the other process could import."""

    class Own(Estimator):
        def assign(self, trajectories: Sequence[Trajectory], values: Sequence[FloatArray]) -> list[Credit]:
            return []

    class OwnGame(RockPaperScissors):
        title = "Stone"

    def own_filter(ranking: GroupRanking) -> Collection[str]:
        return ["kept"]

    def own_loss(tokens: Any) -> Any:
        return tokens + 1

    def own_reward(turn: Any, price: float) -> float:
        return -price

    register_reward("own_reward", own_reward)
    register_estimator("own_estimator", Own)
    register_filter("own_filter", own_filter)
    register_loss("own_loss", own_loss)
    register_text_env("own_game", OwnGame)
    config = StarPOConfig().environment("own_game")
    config.update_from_dict({"estimator": "own_estimator", "filter": "own_filter", "loss": "own_loss"})
    config.training(rewards=[{"name": "own_reward", "price": 2.0}])
    file = folder / "sent"
    file.write_bytes(cloudpickle.dumps(config if way == "config" else config.to_dict()))
    done = subprocess.run(
        [sys.executable, "-c", READS, str(file)], cwd=TOP, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "Own ['kept'] 4 Stone [-2.0]"


def test_a_config_without_registered_names_sends_nothing_besides() -> None:
    assert "registered_in_python" not in StarPOConfig().to_dict()


def test_a_cluster_is_sent_the_top_of_each_import_path_but_not_what_is_installed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = RunConfig.model_validate(
        {
            "env": {"name": WORLD},
            "credit": {"estimator": ESTIMATOR, "filter": "single_file:keep"},
            "learner": {"loss": "numpy.linalg:norm"},
            "rewards": ["another_file:fn", "length_penalty"],
        }
    )
    (folder / "single_file.py").write_text("def keep(ranking): return ranking.groups\n")
    (folder / "another_file.py").write_text("def fn(turn): return 0\n")
    files = [folder / name for name in ("another_file.py", "my_pkg", "single_file.py")]
    assert users_modules(config) == list(map(str, files))
    assert users_modules(RunConfig()) == []
    several = RunConfig.model_validate({"envs": [{}, {"name": WORLD}]})
    assert users_modules(several) == [str(folder / "my_pkg")]
    monkeypatch.setenv(SET_IN_RAY_JOBS, "{}")
    assert users_modules(config) == []
