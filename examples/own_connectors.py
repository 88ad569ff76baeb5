"""Connectors of one's own: what the policy reads is rewritten, and what it is paid for is shaped.

What it shows
    `TurnsLeft` is an env-to-module connector, RLlib's own kind that preprocesses an observation: it tells the policy
    which turn this is. What it returns is what is tokenised, sampled on and trained with. `Brevity` is a learner
    connector: it takes something off a turn's reward for each token of the reply, before groups are filtered and
    compared. `HalfForFailures`, after AssignCredit, halves the weight of the rows of failed episodes. What is reported
    of rollouts is the environment's own reward.

How to run it
    python examples/own_connectors.py
    python examples/own_connectors.py --num-env-runners 1      # in processes of their own

What to expect
    A prompt as the policy reads it, with its first line from `TurnsLeft`, and two iterations on Sokoban.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import ray
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.connectors.env_to_module.observation_preprocessor import SingleAgentObservationPreprocessor
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from rllib_ragen import AssignCredit, StarPOConfig

MAX_TURNS = 5
"""Turns that an episode has: the default, said here because the prompt tells it."""


class TurnsLeft(SingleAgentObservationPreprocessor):
    """Says above each message how many turns there are still to come."""

    def preprocess(self, observation: str, episode: SingleAgentEpisode) -> str:
        """Returns the message with a line more; `episode` has what was said before, in words."""
        return f"Turn {len(episode) + 1} of {MAX_TURNS}.\n{observation}"


class Brevity(ConnectorV2):
    """Takes `cost` off a turn's reward for each token of its reply."""

    def __init__(self, cost: float) -> None:
        super().__init__()
        self.cost = cost

    def __call__(self, *, batch: dict[str, Any], episodes: list[SingleAgentEpisode], **kwargs: Any) -> dict[str, Any]:
        """Changes the rewards in the episodes; there are no rows yet."""
        for episode in self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False):
            lengths = [len(token_ids) for token_ids in episode.get_actions()]
            shaped = [reward - self.cost * n for reward, n in zip(episode.get_rewards(), lengths, strict=True)]
            episode.set_rewards(new_data=shaped, at_indices=slice(0, len(shaped)))
        return batch


class HalfForFailures(ConnectorV2):
    """Halves the weight of the episodes that did not reach their goal."""

    def __call__(self, *, batch: dict[str, Any], episodes: list[SingleAgentEpisode], **kwargs: Any) -> dict[str, Any]:
        """Changes a column of the rows, one item per episode."""
        failed = {episode.id_ for episode in episodes if not episode.custom_data["success"]}
        self.foreach_batch_item_change_in_place(
            batch, "loss_weight", lambda weight, episode_id, *_: weight / 2 if episode_id in failed else weight
        )
        return batch


def main(arguments: Sequence[str] | None = None) -> None:
    """Trains with the three."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--iterations", type=int, default=2, help="updates")
    parser.add_argument("--num-env-runners", type=int, default=0, help="processes that sample; 0: this one")
    args = parser.parse_args(arguments)

    ray.init(include_dashboard=False, ignore_reinit_error=True)
    algo = (
        StarPOConfig()
        .environment("sokoban", env_config={"limits": {"max_turns": MAX_TURNS}})
        .env_runners(
            num_env_runners=args.num_env_runners,
            env_to_module_connector=lambda env, spaces, device: TurnsLeft(),
        )
        .learners(
            learner_connector=lambda observation_space, action_space: [
                Brevity(0.001),
                AssignCredit(),
                HalfForFailures(),
            ]
        )
        .training(num_groups=2, group_size=2)
        .build_algo()
    )
    for iteration in range(args.iterations):
        metrics = algo.train()["starpo"]
        if iteration == 0:
            print(algo.last_trajectories()[0].turns[0].prompt)
        print(f"{iteration + 1:4}  return {metrics['return_mean']:.2f}  policy loss {metrics['policy_loss']:.3f}")
    algo.stop()


if __name__ == "__main__":
    main()
