"""Rewards of one's own beside the environment's, named by import path.

What it shows
    `thinks` is given a turn: it pays for a thought that is not empty. `few_turns` is given a trajectory and takes a
    price for each turn, told by a setting. `unlike_the_others` is given all trajectories of a batch, and is async: it
    pays for what no other member of the group has said. What they give is logged under their names, and the
    environment's own reward still decides what counts as success.

How to run it
    python examples/own_rewards.py
    python -m rllib_ragen.run --env bandit --set rewards=examples.own_rewards:thinks
    python -m rllib_ragen.run --env sokoban --set 'rewards=[{name: examples.own_rewards:few_turns, price: 0.2}]'

What to expect
    Two iterations on the bandit with all three, what each gave, and where the run's folder is.
"""

from __future__ import annotations

import argparse
from collections import Counter

from rllib_ragen import Trajectory, Turn, register_reward, train


def thinks(turn: Turn) -> float:
    """Returns 1 for a thought with a word in it, else 0."""
    thought = turn.reply.partition("<think>")[2].partition("</think>")[0]
    return float(any(character.isalnum() for character in thought))


def few_turns(trajectory: Trajectory, price: float = 0.1) -> list[float]:
    """Returns −price for each turn, where it was taken: GiGPO and bi-level GAE see which."""
    return [-price] * len(trajectory.turns)


async def unlike_the_others(trajectories: list[Trajectory]) -> list[float]:
    """Returns 1 for replies that no other member of the group has given, one number for each trajectory."""
    said = [(one.group_id, *(turn.reply for turn in one.turns)) for one in trajectories]
    often = Counter(said)
    return [float(often[one] == 1) for one in said]


def main() -> None:
    """Registers one by a word, and trains with all three."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--iterations", type=int, default=2, help="updates")
    parser.add_argument("--results-dir", default="results", help="where the run's folder goes")
    args = parser.parse_args()

    register_reward("thinks", thinks)
    register_reward("few_turns", few_turns)
    register_reward("unlike_the_others", unlike_the_others)
    result = train(
        "bandit",
        iterations=args.iterations,
        results_dir=args.results_dir,
        rewards=[
            "thinks",
            {"name": "few_turns", "price": 0.05},
            {"name": "unlike_the_others", "weight": 0.1, "label": "novelty"},
        ],
        rollout={"num_groups": 4, "group_size": 4, "engine": "hf"},
        eval={"interval": 0, "num_test_instances": 0},
    )
    for row in result.metrics:
        print(", ".join(f"{name} {row[name]:.2f}" for name in row if name.startswith("reward_")))
    print(f"{len(result.metrics)} iterations, {result.stop_reason}: {result.folder}")


if __name__ == "__main__":
    main()
