"""Train the embedded model on Sokoban, as an ordinary RLlib program.

What it shows
    StarPO is an RLlib algorithm: configure it fluently, build it, call `train()`. The settings are those of
    `python -m rllib_ragen.run --env sokoban`, so the same seed gives the same numbers.

How to run it
    python examples/train_sokoban.py                     # in one process
    python examples/train_sokoban.py --env-runners 1     # sampling in an actor of its own
    python examples/train_sokoban.py --iterations 5      # a quick look

What to expect
    A line per iteration, some seconds each on two cores. `success` is that of 128 sampled episodes and jumps about by
    a few points; the validation lines say what has been learnt: 35 to 40 % at T = 1 at the start, rising from the
    first 20 iterations on. `gap` is the largest difference between the sampler's and the learner's log-probs: with
    one process it is rounding, 1e-5.
"""

from __future__ import annotations

import argparse

import ray

from rllib_ragen.starpo.config import StarPOConfig


def main() -> None:
    """Trains, validates, exports."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--iterations", type=int, default=30, help="updates of the policy")
    parser.add_argument("--seed", type=int, default=0, help="everything random follows from it")
    parser.add_argument("--env-runners", type=int, default=0, help="actors that sample; 0: in this process")
    parser.add_argument("--model", default="tiny", help="`tiny` or a transformers folder")
    parser.add_argument("--export", default="results/sokoban_model", help="folder for the trained model")
    args = parser.parse_args()

    ray.init(include_dashboard=False)
    task = {"height": 6, "width": 6, "num_boxes": 1, "observation": "both", "min_solution_steps": 6}
    algo = (
        StarPOConfig()
        .environment("ragen/Sokoban-v0", env_config={"task": task, "limits": {"max_turns": 5, "max_actions": 20}})
        .env_runners(num_env_runners=args.env_runners)
        .llm(model=args.model)
        .rollout(max_reply_tokens=72, max_concurrent=256)
        .training(num_groups=64, group_size=8, estimator="raft", normalize="none", entropy_coeff=0.0)
        .training(lr=5e-4, lr_schedule="linear", decay_iterations=args.iterations, betas=(0.9, 0.95))
        .training(num_epochs=2, num_minibatches=6)
        .credit(filter="min_p", filter_value=0.3)
        .debugging(seed=args.seed)
        .build_algo()
    )
    for iteration in range(args.iterations + 1):
        if iteration % 6 == 0 or iteration == args.iterations:
            score = algo.evaluate_split("val", 128, greedy=False)
            print(f"{iteration:4}  validation, T = 1: success {score['success']:.1%}", flush=True)
        if iteration == args.iterations or algo.stop_reason:
            break
        metrics = algo.train()["starpo"]
        print(
            f"{iteration + 1:4}  success {metrics['success']:.1%}  return {metrics['return_mean']:.2f}"
            f"  reward std {metrics['group_reward_std']:.2f}  entropy {metrics['entropy']:.3f}"
            f"  gap {metrics['logprob_gap_max']:.1e}"
            f"  rollout {metrics['time_rollout_s']:.1f} s  update {metrics['time_update_s']:.1f} s",
            flush=True,
        )
    print(f"model: {algo.export_model(args.export)}")
    algo.stop()


if __name__ == "__main__":
    main()
