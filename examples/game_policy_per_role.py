"""Kuhn poker with a policy for each role, trained together.

What it shows
    `multi_agent(policies=…, policy_mapping_fn=…, policies_to_train=…)` as anywhere in RLlib: two modules in one
    MultiRLModule, each learning from its own trajectories only. `.multi_agent(play_mode="per_role")` is short for it.

How to run it
    python examples/game_policy_per_role.py
    python examples/game_policy_per_role.py --iterations 5      # a quick look

What to expect
    The win rates of player_0 and player_1 are those of two different policies.
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
        .training(num_groups=32, group_size=4, estimator="rae", lr=3e-4, betas=(0.9, 0.95))
        .multi_agent(
            policies={"first", "second"},
            policy_mapping_fn=lambda agent, episode, **kwargs: "first" if agent == "player_0" else "second",
            policies_to_train=["first", "second"],
        )
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
