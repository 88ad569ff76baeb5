"""Kuhn poker against its equilibrium, a scripted opponent.

What it shows
    One policy in training, in both roles in turn, against a player of envs/games/players.py. Any name of PLAYERS will
    do that can play the game; `uniform` plays them all.

How to run it
    python examples/game_against_a_script.py
    python examples/game_against_a_script.py --iterations 5      # a quick look

What to expect
    No player beats the equilibrium: returns end near -1/18 as player_0 and +1/18 as player_1, from below.
"""

from __future__ import annotations

import argparse

import ray

from rllib_ragen.starpo.config import StarPOConfig


def main() -> None:
    """Trains, and prints the results against scripted players."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--iterations", type=int, default=60, help="updates")
    parser.add_argument("--seed", type=int, default=0, help="everything random follows from it")
    args = parser.parse_args()

    ray.init(include_dashboard=False)
    algo = (
        StarPOConfig()
        .environment("kuhn_poker", env_config={"limits": {"max_turns": 2}})
        .rollout(max_reply_tokens=16, max_context_tokens=256)
        .training(num_groups=32, group_size=8, estimator="rae", lr=3e-4, betas=(0.9, 0.95))
        .multi_agent(play_mode="against", opponent="kuhn_equilibrium")
        .debugging(seed=args.seed)
        .build_algo()
    )
    for iteration in range(args.iterations + 1):
        if iteration % 20 == 0 or iteration == args.iterations:
            found = algo.evaluate_split("val", 128, greedy=False)
            for name in sorted(found):
                if name.startswith("win_rate"):
                    print(f"{iteration:4}  {name}: {found[name]:.1%}", flush=True)
        if iteration == args.iterations or algo.stop_reason:
            break
        metrics = algo.train()["starpo"]
        print(
            f"{iteration + 1:4}  return as player_0 {metrics['return_player_0']:+.2f}"
            f"  as player_1 {metrics['return_player_1']:+.2f}",
            flush=True,
        )
    algo.stop()


if __name__ == "__main__":
    main()
