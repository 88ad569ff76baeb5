"""A world of one's own: a treasure hunt on a strip of sand, trained on as any shipped environment is.

What it shows
    A TextTask describes rules, states and actions in words; prompts, replies, turns and penalties are the package's.
    Its constructor's parameters are the settings of `env.task`. It is named by an import path, also in YAML, or by a
    name that was given to `register_text_env`.

How to run it
    python examples/own_world.py
    python -m rllib_ragen.run --env examples.own_world:TreasureHunt --set env.task.fields=9
    python -m ragen_envs.certify examples.own_world:TreasureHunt

What to expect
    Two iterations, and where the run's folder is. To learn it takes a model that can read (`--model`), and a few more.
"""

from __future__ import annotations

import argparse
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np

from ragen_envs.splits import draw_instance
from ragen_envs.task import read_options
from rllib_ragen import TextTask, register_text_env, train

ACTIONS = ("Left", "Right", "Dig")


class TreasureHunt(TextTask[int]):
    """+1 for digging where the treasure lies; digging elsewhere ends the hunt with nothing.

    Args:
        fields: fields of the strip, ≥ 3.
    """

    title: ClassVar[str] = "TreasureHunt"

    def __init__(self, fields: int = 7) -> None:
        if fields < 3:
            raise ValueError(f"fields must be ≥ 3, got {fields}")
        self.fields = fields
        self.action_space = gym.spaces.Discrete(len(ACTIONS))
        self.observation_space = gym.spaces.Text(200)
        self.start = self.player = self.treasure = 0
        self.found = False

    def rules(self) -> str:
        """Returns the task in words."""
        return (
            f"You stand on a strip of {self.fields} fields, 1 to {self.fields}. Walk to the treasure and dig, once. "
            f"Actions: {', '.join(ACTIONS)}. The treasure gives 1."
        )

    def describe(self) -> str:
        """Returns the positions of the player and the treasure."""
        return f"You are on field {self.player + 1}, the treasure is on field {self.treasure + 1}"

    def parse_action(self, text: str) -> int | None:
        """Returns the number of the action named `text` (Left, Right, Dig in any case), or None."""
        names = [name.lower() for name in ACTIONS]
        return names.index(text.strip().lower()) if text.strip().lower() in names else None

    def legal_actions(self) -> list[str]:
        """Returns all three actions; the edge holds the player back."""
        return list(ACTIONS)

    @property
    def success(self) -> bool:
        """Whether the treasure is found."""
        return self.found

    @property
    def instance_key(self) -> str:
        """The positions of start and treasure."""
        return f"{self.fields} {self.start} {self.treasure}"

    def solve(self) -> list[str] | None:
        """Returns the way to the treasure, and digging."""
        way = self.treasure - self.player
        return ["Right" if way > 0 else "Left"] * abs(way) + ["Dig"]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Draws the instance that (seed, split) names."""
        super().reset(seed=seed)
        split, _ = read_options(seed, options)

        def draw(rng: np.random.Generator) -> tuple[int, int]:
            start, treasure = rng.choice(self.fields, size=2, replace=False)
            return int(start), int(treasure)

        self.start, self.treasure = draw_instance(
            self._seed_or_draw(seed), split, draw, lambda pair: f"{self.fields} {pair[0]} {pair[1]}"
        )
        self.player, self.found = self.start, False
        return self.describe(), {}

    def step(self, action: int) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Moves, or digs and ends the hunt."""
        if ACTIONS[action] == "Dig":
            self.found = self.player == self.treasure
            return self.describe(), float(self.found), True, False, {}
        self.player = min(max(self.player + (1 if ACTIONS[action] == "Right" else -1), 0), self.fields - 1)
        return self.describe(), 0.0, False, False, {}


def main() -> None:
    """Registers the world under a name, and trains on it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--iterations", type=int, default=2, help="updates")
    parser.add_argument("--num-env-runners", type=int, default=1, help="processes that sample")
    parser.add_argument("--results-dir", default="results", help="where the run's folder goes")
    args = parser.parse_args()

    register_text_env("treasure_hunt", TreasureHunt)
    result = train(
        "treasure_hunt",
        iterations=args.iterations,
        results_dir=args.results_dir,
        env={"task": {"fields": 5}, "max_turns": 3},
        rollout={"num_groups": 4, "group_size": 4, "num_env_runners": args.num_env_runners, "engine": "hf"},
        eval={"num_instances": 8, "num_test_instances": 8},
    )
    print(f"{len(result.metrics)} iterations, {result.stop_reason}: {result.folder}")


if __name__ == "__main__":
    main()
