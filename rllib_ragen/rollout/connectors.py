"""RLlib's connectors around a turn: what is said to a policy, and what its environment hears of the reply.

Each agent's conversation is a SingleAgentEpisode of texts: observations are user messages, actions the replies,
`infos[t]["state"]` the environment's state. A turn goes through `env_to_module_connector` once, with that episode alone
(replies come and go one by one, so there is no batch of episodes to wait for), and its reply through
`module_to_env_connector`.

What env-to-module pieces leave as the episode's last observation is tokenised, sampled on and trained with. A piece
that wants token ids comes after `TokeniseObservations`: `batch["obs"]` is then what the context gains by this turn, and
what is left there is, to the token, what the engine sees. Module-to-env pieces work on `batch["actions"]`, texts; the
trajectory keeps the reply as it was sampled.

`shared_data` is one dictionary for an agent's episode in both pipelines. `shared_data["token_ids"]` are the tokens that
the policy has seen and said so far, `shared_data["tokenise"]` makes a user message the ids of the turn to come.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from ray.rllib.connectors.connector_pipeline_v2 import ConnectorPipelineV2
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.core.columns import Columns
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from ragen_envs.tree import Tree
from rllib_ragen.rollout.context import Tokenise
from rllib_ragen.rollout.whole_batch import WholeBatchError
from rllib_ragen.types import Trajectory, Turn

_TOKENISE = "tokenise"
_SO_FAR = "token_ids"
_ENV_TO_MODULE = "env_runners(env_to_module_connector=…)"
_MODULE_TO_ENV = "env_runners(module_to_env_connector=…)"


class TokeniseObservations(ConnectorV2):
    """Puts the token ids of each episode's last observation into `batch["obs"]`.

    It is at the end of every env-to-module pipeline, or where the user's list has it: pieces before it see texts, those
    after it token ids.
    """

    def __call__(
        self, *, batch: Tree, episodes: Sequence[SingleAgentEpisode], shared_data: Tree | None = None, **kwargs: Any
    ) -> Tree:
        """Returns the batch with its `obs`."""
        assert shared_data is not None
        for episode in self.single_agent_episode_iterator(episodes):
            ids = shared_data[_TOKENISE](_text(episode.get_observations(-1), _ENV_TO_MODULE))
            self.add_batch_item(batch, Columns.OBS, ids, episode)
        return batch


class TurnConnectors:
    """Both pipelines of a policy, for a batch of episodes."""

    def __init__(
        self,
        env_to_module: ConnectorPipelineV2,
        module_to_env: ConnectorPipelineV2,
        *,
        num_ids: int,
        rl_module: Any,
        explore: bool,
        metrics: Any,
    ) -> None:
        """
        Args:
            env_to_module: as `StarPOConfig.build_env_to_module_connector` makes it.
            module_to_env: likewise.
            num_ids: token ids that the policy knows.
            rl_module: of the policy; None where an engine in another process has the weights.
            explore: whether replies are sampled; else they are greedy.
            metrics: MetricsLogger that pieces log to.
        """
        self._env_to_module, self._module_to_env, self._num_ids = env_to_module, module_to_env, num_ids
        self._with = {"rl_module": rl_module, "explore": explore, "metrics": metrics}

    def open(self, trajectory: Trajectory, in_game: bool) -> AgentConnectors:
        """Starts the episode of one agent."""
        return AgentConnectors(self, trajectory, in_game)

    def observed(self, episode: SingleAgentEpisode, shared: Tree) -> tuple[str, list[int]]:
        """Returns the text and the token ids of the turn that the episode's last observation begins."""
        batch = self._run(_ENV_TO_MODULE, self._env_to_module, {}, episode, shared)
        found = _only(batch, Columns.OBS, _ENV_TO_MODULE)
        ids = np.asarray(found)
        if ids.ndim != 1 or ids.dtype.kind not in "iu" or not ((ids >= 0) & (ids < self._num_ids)).all():
            raise WholeBatchError(
                f'{_ENV_TO_MODULE}: must leave batch["obs"] as one or more token ids from 0 to {self._num_ids - 1}, not'
                f" {found!r:.80}"
            )
        return _text(episode.get_observations(-1), _ENV_TO_MODULE), ids.tolist()

    def acted(self, reply: str, episode: SingleAgentEpisode, shared: Tree) -> str:
        """Says what the environment hears of a reply."""
        batch: Tree = {}
        ConnectorV2.add_batch_item(batch, Columns.ACTIONS, reply, episode)
        batch = self._run(_MODULE_TO_ENV, self._module_to_env, batch, episode, shared)
        # As in RLlib: a piece may tell the environment something else than what it leaves as the action.
        column = Columns.ACTIONS_FOR_ENV if Columns.ACTIONS_FOR_ENV in batch else Columns.ACTIONS
        return _text(_only(batch, column, _MODULE_TO_ENV), _MODULE_TO_ENV)

    def _run(
        self, name: str, pieces: ConnectorPipelineV2, batch: Tree, episode: SingleAgentEpisode, shared: Tree
    ) -> Tree:
        try:
            found: Tree = pieces(batch=batch, episodes=[episode], shared_data=shared, **self._with)
        except WholeBatchError:
            raise
        except Exception as error:
            raise WholeBatchError(f"{name}: {type(error).__name__}: {error}") from error
        return found


class AgentConnectors:
    """One agent's episode as its connectors see it."""

    def __init__(self, connectors: TurnConnectors, trajectory: Trajectory, in_game: bool) -> None:
        self._connectors = connectors
        names: Tree = {}
        if in_game:
            names = {"agent_id": trajectory.agent_id, "module_id": trajectory.module_id}
        self._episode = SingleAgentEpisode(len_lookback_buffer=0, **names)
        if in_game:
            # Plays of one game share the group's id, which cannot tell them apart.
            self._episode.multi_agent_episode_id = self._episode.id_
        self._episode.custom_data["group_id"] = trajectory.group_id
        self._shared: Tree = {}

    def hear(
        self, message: str, state: str, last: Turn | None, token_ids: Sequence[int], tokenise: Tokenise
    ) -> tuple[str, list[int]]:
        """Returns the text and the token ids of the turn to come.

        Args:
            message: what the environment says.
            state: its state.
            last: turn that it answers; None at the beginning.
            token_ids: context so far.
            tokenise: makes a user message the ids that come next.

        Raises:
            WholeBatchError: a piece raises, or leaves something else than a text or token ids.
        """
        if last is None:
            self._episode.add_env_reset(message, {"state": state})
        else:
            self._episode.add_env_step(message, last.reply, last.reward, {"state": state})
        self._shared |= {_SO_FAR: list(token_ids), _TOKENISE: tokenise}
        return self._connectors.observed(self._episode, self._shared)

    def act(self, reply: str) -> str:
        """Returns what the environment is told of the agent's reply. Raises as `hear` does."""
        return self._connectors.acted(reply, self._episode, self._shared)


def _only(batch: Tree, column: str, name: str) -> Any:
    """Returns the one item of a column."""
    try:
        ((item,),) = batch[column].values()
    except (KeyError, AttributeError, TypeError, ValueError):
        raise WholeBatchError(f"{name}: batch[{column!r}] must be left with one item for the episode") from None
    return item


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise WholeBatchError(f"{name}: must leave a text, not {type(value).__name__}")
    return value
