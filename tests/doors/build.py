"""A user's package in a folder of its own: a world, a game, estimator, filter and loss, and things that are none."""

from __future__ import annotations

import shutil
from pathlib import Path

TOP = Path(__file__).parents[2]
WORLD, GAME = "my_pkg.worlds:TreasureHunt", "my_pkg.worlds:Pennies"
ESTIMATOR, FILTER, LOSS = "my_pkg.credit:MedianBaseline", "my_pkg.credit:keep_mixed", "my_pkg.credit:unclipped"
REWARD = "my_pkg.rewards:thinks"
_GAME = '''
from ragen_envs.games.matrix import MatrixGame


class Pennies(MatrixGame):
    """Alike or not: player_0 wants equal coins."""

    title = "Pennies"
    actions = ("Heads", "Tails")
    zero_sum = False

    def rules(self):
        return f"Matching pennies, {self.rounds} round(s). Actions: Heads, Tails."

    def payoff(self, own, others):
        return float(own == others)
'''
_NONE = """
from rllib_ragen import Estimator, TextTask

number = 3


class HalfATask(TextTask):
    title = "Half"

    def rules(self):
        return ""


class HalfAnEstimator(Estimator):
    pass


class WantsBeta(Estimator):
    def __init__(self, beta):
        self.beta = beta

    def assign(self, trajectories, values):
        return []


def of_two(one, two):
    return one
"""


def write_package(folder: Path) -> Path:
    """Writes `my_pkg` into `folder` (what the examples show, and more) → `folder`."""
    package = folder / "my_pkg"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    shutil.copy(TOP / "examples" / "own_world.py", package / "worlds.py")
    with (package / "worlds.py").open("a") as file:
        file.write(_GAME)
    shutil.copy(TOP / "examples" / "own_credit.py", package / "credit.py")
    shutil.copy(TOP / "examples" / "own_rewards.py", package / "rewards.py")
    (package / "none.py").write_text(_NONE)
    (package / "broken.py").write_text("raise RuntimeError('no licence\\nfound')\n")
    (package / "lacks.py").write_text("import a_package_that_nobody_has\n")
    return folder


def write_distribution(folder: Path, name: str, **entry_points: str) -> None:
    """What an installed package leaves: metadata with entry points, each group's lines as text."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    groups = [f"[{group.replace('__', '.')}]\n{lines}\n" for group, lines in entry_points.items()]
    (info / "entry_points.txt").write_text("\n".join(groups))
