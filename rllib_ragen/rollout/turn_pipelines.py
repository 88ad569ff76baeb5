"""The connector pipelines that a config asks for around a turn, one pair for each env runner."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from ray.rllib.connectors.connector_pipeline_v2 import ConnectorPipelineV2

from ragen_envs.tree import Tree
from rllib_ragen.rollout.connectors import TokeniseObservations, TurnConnectors


class TurnPipelines(NamedTuple):
    """A runner's connectors. What they remember is theirs: no other runner, and no checkpoint, has it."""

    env_to_module: ConnectorPipelineV2
    module_to_env: ConnectorPipelineV2

    @classmethod
    def of(cls, config: Any, spaces: Tree) -> TurnPipelines | None:
        """Makes the pieces of a config's connector functions; None: it has neither.

        The functions are called as RLlib calls them: (env, spaces, device) and (env, spaces). `env` is None, because
        a runner has as many environments as episodes, and so is `device`: pieces work on texts and token ids.

        Raises:
            ValueError: a function returns something else than connector pieces.
        """
        found = cls(
            config.build_env_to_module_connector(spaces=spaces), config.build_module_to_env_connector(spaces=spaces)
        )
        if not any(map(len, found)):
            return None
        if not any(isinstance(piece, TokeniseObservations) for piece in found.env_to_module.connectors):
            found.env_to_module.append(TokeniseObservations())
        return found

    def for_each(
        self, module_ids: Iterable[str], *, num_ids: int, rl_module: Any, explore: bool, metrics: Any
    ) -> dict[str, TurnConnectors]:
        """Returns what a batch's episodes go through, by policy; arguments as TurnConnectors'."""
        made = TurnConnectors(*self, num_ids=num_ids, rl_module=rl_module, explore=explore, metrics=metrics)
        return dict.fromkeys(module_ids, made)
