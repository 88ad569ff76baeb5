"""The EnvRunner of multi-agent environments: several policies, each with an engine of its own."""

from __future__ import annotations

from collections.abc import Sequence

from ray.rllib.env.multi_agent_env import MultiAgentEnv
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode

from ragen_envs.games.env import TextGameEnv
from ragen_envs.spaces import AnyText
from rllib_ragen.rollout.callbacks import EpisodeCallbacks, GameRecord
from rllib_ragen.rollout.collect_games import collect_games
from rllib_ragen.rollout.env_runner import LLMEnvRunner
from rllib_ragen.rollout.game_answers import GameSpec
from rllib_ragen.rollout.game_episodes import Episode
from rllib_ragen.rollout.scripted_seats import GameMultiAgentEnv
from rllib_ragen.rollout.specs import EpisodeSpec
from rllib_ragen.types import Sampling

_TURNS_GUESSED = 5
"""Turns per agent to assume if a caller asks for time steps and the environment has no limit: the default of
`env.max_turns`. It only decides how many episodes are begun; each is played to its end."""


class MultiAgentLLMEnvRunner(LLMEnvRunner):
    """Plays TextGameEnvs and RLlib's MultiAgentEnvs whose observations and actions are text.

    The policy of an agent is given by the spec or else by the config's `policy_mapping_fn` of (agent id,
    MultiAgentEpisode), as in RLlib. The episode's `id_` is the group's: all plays of one game seed have the same
    policies at the seats, so that the trajectories of a (policy, role, game seed) can be compared.
    """

    def _adapted(self, env: object) -> MultiAgentEnv:
        return GameMultiAgentEnv(env) if isinstance(env, TextGameEnv) else env

    def _look_at(self, env: object) -> None:
        if not isinstance(env, (TextGameEnv, MultiAgentEnv)):
            raise TypeError(
                f"a multi-agent StarPO plays TextGameEnv and MultiAgentEnv environments, {self.config.env!r} makes a"
                f" {type(env).__name__}"
            )
        self._spaces = (AnyText(), AnyText())
        self._max_turns = _TURNS_GUESSED * max(1, len(env.possible_agents))
        self._max_games = max(1, self.config.max_concurrent // max(1, len(env.possible_agents)))

    def _collect(self, specs: Sequence[EpisodeSpec], sampling: Sampling) -> list[Episode]:
        games = [spec if isinstance(spec, GameSpec) else GameSpec(**vars(spec)) for spec in specs]
        callbacks: EpisodeCallbacks[MultiAgentEnv] = EpisodeCallbacks(self._episode_callback, GameRecord)
        collect_games(
            games,
            engines=self.engines,
            chat=self.chat,
            pool=self.pool,
            map_agent=self._map_agent,
            sampling=sampling,
            max_context_tokens=self.config.max_context_tokens,
            max_games=self._max_games,
            env_timeout_s=self.config.env_timeout_s,
            connectors=self.connectors,
            watcher=callbacks,
        )
        return callbacks.episodes

    def _map_agent(self, agent: str, spec: GameSpec) -> str:
        episode = MultiAgentEpisode(id_=spec.group_id)
        return str(self.config.policy_mapping_fn(agent, episode))
