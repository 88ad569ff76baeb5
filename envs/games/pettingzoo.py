"""PettingZoo's two interfaces to a TextGameEnv: to_aec (one seat at a time) and to_parallel (all at once)."""

from __future__ import annotations

import numpy as np
from pettingzoo import AECEnv, ParallelEnv

from ragen_envs.games.env import TextGameEnv
from ragen_envs.spaces import AnyText
from ragen_envs.tree import Tree

_OPTIONS = ("split", "outcome_seed")


class PettingZooText(str):
    """A string with a dtype, which PettingZoo's `api_test` asks observations for."""

    dtype = np.dtype(str)


def to_aec(env: TextGameEnv) -> AECEnv[str, str, str | None]:
    """Returns `env` as an AECEnv. Simultaneous moves are made in turn, unseen by the other seats."""
    return _AEC(env)


def to_parallel(env: TextGameEnv) -> ParallelEnv[str, str, str | None]:
    """Returns `env` as a ParallelEnv. A seat that is not to act is told to wait, and its reply is ignored."""
    return _Parallel(env)


def _options(options: Tree | None) -> Tree:
    """Returns our options from PettingZoo's, which by its convention may hold anything."""
    return {key: value for key, value in (options or {}).items() if key in _OPTIONS}


class _Spaces:
    """The parts that both adapters share."""

    def __init__(self, env: TextGameEnv) -> None:
        self.env = env
        self.possible_agents = list(env.possible_agents)
        self.agents: list[str] = []
        self.render_mode = "ansi"
        self.metadata = {**env.metadata, "name": type(env.game).__name__}

    def observation_space(self, agent: str) -> AnyText:
        """Returns any text."""
        return self.env.observation_space(agent)

    def action_space(self, agent: str) -> AnyText:
        """Returns any text."""
        return self.env.action_space(agent)

    def render(self) -> str:
        """Returns the view of each seat."""
        return self.env.render()

    def close(self) -> None:
        """Closes the game."""
        self.env.close()


class _AEC(_Spaces, AECEnv[str, str, "str | None"]):
    def reset(self, seed: int | None = None, options: Tree | None = None) -> None:
        _, infos = self.env.reset(seed=seed, options=_options(options))
        self.agents = list(self.possible_agents)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = infos
        self._skip_agent_selection = None
        self.agent_selection = self.env.to_act[0]

    def observe(self, agent: str) -> str:
        return PettingZooText(self.env.observe(agent))

    def step(self, action: str | None) -> None:
        seat = self.agent_selection
        if self.terminations[seat] or self.truncations[seat]:
            self._was_dead_step(action)
            return
        if action is None:
            raise ValueError(f"{seat} must reply: None is for seats that have ended")
        self._cumulative_rewards[seat] = 0.0
        result = self.env.step({seat: action})
        self._clear_rewards()
        self.rewards.update(result.rewards)
        self.terminations.update(result.terminated)
        self.truncations.update(result.truncated)
        self.infos.update(result.infos)
        self._accumulate_rewards()
        if self.env.to_act:
            self.agent_selection = self.env.to_act[0]
        self._deads_step_first()


class _Parallel(_Spaces, ParallelEnv[str, str, "str | None"]):
    def reset(self, seed: int | None = None, options: Tree | None = None) -> tuple[dict[str, str], dict[str, Tree]]:
        _, infos = self.env.reset(seed=seed, options=_options(options))
        self.agents = list(self.env.agents)
        return self._observations(self.agents), infos

    def step(
        self, actions: dict[str, str | None]
    ) -> tuple[dict[str, str], dict[str, float], dict[str, bool], dict[str, bool], dict[str, Tree]]:
        replies = {}
        for seat in self.env.to_act:
            reply = actions.get(seat)
            if reply is None:
                raise ValueError(f"{seat} must reply; got replies of {', '.join(actions) or 'nobody'}")
            replies[seat] = reply
        played = list(self.env.agents)
        _, rewards, terminated, truncated, infos = self.env.step(replies)
        self.agents = list(self.env.agents)
        return self._observations(played), rewards, terminated, truncated, infos

    def _observations(self, seats: list[str]) -> dict[str, str]:
        return {seat: PettingZooText(self.env.observe(seat)) for seat in seats}
