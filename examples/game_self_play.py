"""Tic-tac-toe against itself: one policy at both seats.

What it shows
    Self-play. Every game gives two trajectories, one per seat, each with its own tokens and rewards; the baseline of
    a seat is its own (estimator rae). The small model knows legal moves and describes the board in its thoughts; the KL
    penalty to it (kl_coeff) keeps the descriptions true.

How to run it
    python examples/game_self_play.py
    python examples/game_self_play.py --iterations 5      # a quick look

What to expect
    Lines of win rates by seat and opponent, a good ten minutes on a laptop. The random player wins 58 % as X and 29 %
    as O against another; these games are sampled at T = 1.
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
        .multi_agent(play_mode="self_play")
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
        print(f"{iteration + 1:4}  valid {metrics['valid_ratio']:.1%}  entropy {metrics['entropy']:.3f}", flush=True)
    algo.stop()


if __name__ == "__main__":
    main()
