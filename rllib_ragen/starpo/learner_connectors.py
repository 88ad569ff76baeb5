"""RLlib's learner connectors over a batch: before the filter they shape rewards, after the credit they change rows.

They run in the driver, once an iteration, over the whole batch: groups are compared with each other there, and learners
get finished rows. What is measured of rollouts is of the environment's own rewards; filter, credit and gradients see
the shaped ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from ray.rllib.connectors.connector_pipeline_v2 import ConnectorPipelineV2
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.core.columns import Columns
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from ragen_envs.tree import Tree
from rllib_ragen.rollout.episodes import LiveEpisode
from rllib_ragen.types import DEFAULT_MODULE, FloatArray, TokenRow, Trajectory

LOSS_WEIGHT = "loss_weight"
"""Column of a row's factor on its policy loss: a number."""
_NAME = "learners(learner_connector=…)"
_COLUMNS = {
    Columns.ADVANTAGES: "advantages",
    Columns.VALUE_TARGETS: "returns",
    Columns.LOSS_MASK: "mask",
    LOSS_WEIGHT: "weight",
}
"""Column of the batch → field of a TokenRow."""


class AssignCredit(ConnectorV2):
    """Place of filter and credit in a list of learner connectors.

    Pieces before it work on whole trajectories, those after it on rows. Without it in the list all are before it, as
    RLlib's own come before its advantages.

    Before: `episodes` are the batch's SingleAgentEpisodes (token ids; `infos[t + 1]` says turn t in words); the rewards
    that are left in them are what is learnt from. `batch` is empty.

    After: `batch[column]` is {(episode id,): [item]} in a run with one agent, else {(episode id, agent, policy):
    [item]}, one item per trajectory with a sampled token. Columns are `advantages`, `value_targets` and `loss_mask`,
    [num_tokens] each, and `loss_weight`, a number.
    """

    def __call__(self, *, batch: Tree, **kwargs: Any) -> Tree:
        """Returns the batch as it is: it only marks a place."""
        return batch


class LearnerConnectors:
    """A run's learner connectors; what they remember is in no checkpoint."""

    def __init__(self, pipeline: ConnectorPipelineV2, metrics: Any) -> None:
        """
        Args:
            pipeline: as `StarPOConfig.build_learner_connector` makes it.
            metrics: MetricsLogger that pieces log to.
        """
        pieces = list(pipeline.connectors)
        place = next((i for i, piece in enumerate(pieces) if isinstance(piece, AssignCredit)), len(pieces))
        spaces = (pipeline.input_observation_space, pipeline.input_action_space)
        self._before = ConnectorPipelineV2(*spaces, connectors=pieces[:place])
        self._after = ConnectorPipelineV2(*spaces, connectors=pieces[place + 1 :])
        self._metrics = metrics

    def shaped(self, trajectories: Sequence[Trajectory]) -> list[Trajectory]:
        """Returns the trajectories with the rewards that the pieces before AssignCredit leave.

        Raises:
            ValueError: a piece changes something else, or a reward is not finite.
        """
        if not self._before.connectors or not trajectories:
            return list(trajectories)
        episodes = [_episode(trajectory) for trajectory in trajectories]
        self._run(self._before, {}, episodes)
        return [_with_rewards(t, episode) for t, episode in zip(trajectories, episodes, strict=True)]

    def finished(self, credited: Sequence[tuple[Trajectory, TokenRow]]) -> list[TokenRow]:
        """Returns the rows of the credited trajectories as the pieces after AssignCredit leave them.

        Raises:
            ValueError: a column is missing, or has another shape or values that no row can have.
        """
        rows = [row for _, row in credited]
        if not self._after.connectors or not rows:
            return rows
        episodes = [_episode(trajectory) for trajectory, _ in credited]
        batch: Tree = {}
        for episode, row in zip(episodes, rows, strict=True):
            for column, field in _COLUMNS.items():
                value = getattr(row, field)
                ConnectorV2.add_batch_item(batch, column, value if field == "weight" else value.copy(), episode)
        left = self._run(self._after, batch, episodes)
        items = [{column: _item(left, column, episode) for column in _COLUMNS} for episode in episodes]
        return list(map(_row, rows, items))

    def _run(self, pieces: ConnectorPipelineV2, batch: Tree, episodes: Sequence[SingleAgentEpisode]) -> Tree:
        found: Tree = pieces(
            rl_module=None,
            batch=batch,
            episodes=list(episodes),
            explore=False,
            shared_data={},
            metrics=self._metrics,
            metrics_prefix_key=("learner_connector",),
        )
        return found


def _episode(trajectory: Trajectory) -> SingleAgentEpisode:
    """Returns a trajectory as RLlib's connectors take one: with an agent's name only where there are several."""
    episode = LiveEpisode(trajectory).close()
    if (trajectory.agent_id, trajectory.module_id) == (Trajectory.agent_id, DEFAULT_MODULE):
        episode.agent_id = episode.module_id = None
    else:
        episode.multi_agent_episode_id = episode.id_
    return episode


def _with_rewards(trajectory: Trajectory, episode: SingleAgentEpisode) -> Trajectory:
    rewards = [float(reward) for reward in episode.rewards.data]
    if len(rewards) != len(trajectory.turns) or not np.isfinite(rewards).all():
        raise ValueError(f"{_NAME}: must leave a finite reward for each of an episode's turns, not {rewards!r:.80}")
    turns = zip(trajectory.turns, episode.observations.data, episode.actions.data, strict=False)
    for turn, prompt_ids, reply_ids in turns:
        if not (np.array_equal(turn.prompt_ids, prompt_ids) and np.array_equal(turn.reply_ids, reply_ids)):
            raise ValueError(
                f"{_NAME}: observations and actions are the tokens that were sampled on, and must stay; allowed:"
                " rewards, and rows after AssignCredit (observations: env_runners(env_to_module_connector=…))"
            )
    paid = [replace(turn, reward=reward) for turn, reward in zip(trajectory.turns, rewards, strict=True)]
    return replace(trajectory, turns=paid)


def _item(batch: Tree, column: str, episode: SingleAgentEpisode) -> Any:
    """Returns an episode's item of a column."""
    alone = (episode.id_,)
    key = alone if episode.agent_id is None else (episode.id_, episode.agent_id, episode.module_id)
    try:
        (item,) = batch[column][key]
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{_NAME}: must leave batch[{column!r}] with one item for each episode") from None
    return item


def _row(row: TokenRow, items: Tree) -> TokenRow:
    mask = _array(row, items, Columns.LOSS_MASK)
    if not (np.isin(mask, (0, 1)) & (mask <= row.mask)).all():
        raise ValueError(f"{_NAME}: batch['loss_mask'] must be 1 or 0, and 0 where no token was sampled")
    weight = float(items[LOSS_WEIGHT])
    if not 0 <= weight < float("inf"):
        raise ValueError(f"{_NAME}: batch[{LOSS_WEIGHT!r}] must be numbers ≥ 0, not {weight:g}")
    # Outside the mask a row's numbers are 0.
    return replace(
        row,
        mask=mask,
        logprobs=row.logprobs * mask,
        advantages=_array(row, items, Columns.ADVANTAGES) * mask,
        returns=_array(row, items, Columns.VALUE_TARGETS) * mask,
        old_values=row.old_values * mask,
        weight=weight,
    )


def _array(row: TokenRow, items: Tree, column: str) -> FloatArray:
    array = np.asarray(items[column], np.float32)
    if array.shape != (row.num_tokens,) or not np.isfinite(array).all():
        raise ValueError(f"{_NAME}: batch[{column!r}] must be finite numbers, {row.num_tokens} for as many tokens")
    return array
