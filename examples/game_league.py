"""Tic-tac-toe against earlier selves: a small league.

What it shows
    Frozen copies as opponents. The policy joins the league, in place of its oldest member, when it scores 60 %
    against it, or after 20 iterations in any case.

How to run it
    python examples/game_league.py
    python examples/game_league.py --iterations 5      # a quick look

What to expect
    `members` grows from 1 to 3; `score` is that of the iteration's games against the league.
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
        .environment("tic_tac_toe", env_config={"limits": {"max_turns": 5, "format_penalty": -0.5}})
        .rollout(max_reply_tokens=64, max_context_tokens=1024)
        .training(
            num_groups=32,
            group_size=4,
            num_minibatches=4,
            estimator="rae",
            lr=1e-3,
            betas=(0.9, 0.95),
            kl_coeff=0.03,
            lr_schedule="linear",
            decay_iterations=max(1, args.iterations),
        )
        .multi_agent(play_mode="league", league_size=3, league_win_rate=0.6, league_interval=20)
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
            f"{iteration + 1:4}  score {metrics['league_score']:.1%}  members {metrics['league_members']:.0f}",
            flush=True,
        )
    algo.stop()


if __name__ == "__main__":
    main()
