"""An episode of several agents in a MultiAgentEnv."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from ray.rllib.env.multi_agent_env import MultiAgentEnv

from rllib_ragen.rollout.conversation import Ask, PolicyConversation, Sampler
from rllib_ragen.rollout.env_answers import BadAnswer
from rllib_ragen.rollout.game_answers import AgentInfo, GameAnswer, GameSpec, read_game_answer, read_game_opening
from rllib_ragen.rollout.scripted_seats import script_of
from rllib_ragen.rollout.session import Steps, on_env
from rllib_ragen.rollout.whole_batch import WholeBatchError
from rllib_ragen.types import StopReason, Trajectory

_MAX_IDLE = 1_000
"""Most steps in a row in which an environment prompts no agent: chosen freely, to end endless games."""


class PolicyMappingError(WholeBatchError):
    """Agents and policies do not fit together: an error of the config, not of one game."""


MapAgent = Callable[[str, GameSpec], str]
"""A function from (agent, spec) to a policy's id, or `script:<player>`."""


class GameSession:
    """A session of one GameSpec; `trajectories` are its results, one for each agent that a policy plays."""

    mute_when_full = False
    """Whether an agent without room for a reply goes on without one; else the game is cut off for all."""

    def __init__(self, spec: GameSpec, samplers: Mapping[str, Sampler], map_agent: MapAgent) -> None:
        """
        Args:
            spec: the game.
            samplers: samplers by policy id.
            map_agent: called once for every agent whose player the spec does not name, when it first occurs
            (before the first prompt, if the environment has `possible_agents`).
        """
        self.spec = spec
        self._samplers, self._map_agent = samplers, map_agent
        self._agents: dict[str, PolicyConversation] = {}
        """Agents in the order in which they were first heard of."""
        self._scripted: set[str] = set()
        self._known: tuple[str, ...] = ()
        self._instance_key = ""
        self._failed_alone: list[Trajectory] = []

    @property
    def trajectories(self) -> list[Trajectory]:
        """Trajectories so far, in order of the agents' first occurrence."""
        return [agent.trajectory for agent in self._agents.values()] or self._failed_alone

    @property
    def agents(self) -> Mapping[str, PolicyConversation]:
        """Agents that policies play, in the order in which they were first heard of."""
        return self._agents

    def play(self) -> Steps[MultiAgentEnv]:
        opening = yield from on_env(partial(read_game_opening, self.spec))
        self._known, self._instance_key = opening.possible_agents, opening.instance_key
        for name in self._known:
            self._meet(name)
        prompts, infos, idle = opening.prompts, opening.infos, 0
        while True:
            asked = self._tell(prompts, infos, opening.system)
            idle = 0 if asked else idle + 1
            if idle > _MAX_IDLE:
                raise BadAnswer(f"nobody was prompted in {_MAX_IDLE} steps in a row, and the game is not over")
            if asked:
                yield Ask([*asked.values()], self.mute_when_full)
            replies = {name: agent.act() for name, agent in asked.items()}
            answer = yield from on_env(partial(read_game_answer, replies))
            self._note(replies, answer)
            if answer.over or (self._agents and all(agent.ended for agent in self._agents.values())):
                return
            prompts, infos = answer.prompts, answer.infos

    def stop(self, reason: StopReason, error: str = "") -> None:
        for agent in self._agents.values():
            if reason.failed or not agent.ended:
                agent.close(reason, error)
        if reason.failed:
            # Told if no agent was heard of before: else nobody would hear of the failure.
            spec, module_id = self.spec, min(self._samplers, default="")
            self._failed_alone = [
                Trajectory(
                    spec.group_id, spec.env_seed, spec.outcome_seed, [], reason, module_id=module_id, error=error
                )
            ]

    def seed_index(self, name: str) -> int:
        """Returns the number that distinguishes a new agent's sampling seeds from those of the others in its game."""
        return len(self._agents)

    def _meet(self, name: str) -> PolicyConversation | None:
        """Returns the agent's conversation, which is mapped to a policy at its first occurrence; None for a script."""
        if name in self._agents or name in self._scripted:
            return self._agents.get(name)
        self._check_known(name)
        spec = self.spec
        module_id = self._policy_of(name)
        if script_of(module_id) is not None:
            self._scripted.add(name)
            return None
        group = f"{module_id}/{name}/{spec.group_id}"
        trajectory = Trajectory(group, spec.env_seed, spec.outcome_seed, module_id=module_id, agent_id=name)
        trajectory.instance_key = self._instance_key
        seeds = (spec.sampling_seed, self.seed_index(name))
        agent = PolicyConversation(
            trajectory, self._samplers[module_id], seeds, in_game=True, prefix=f"agent {name!r}: "
        )
        self._agents[name] = agent
        return agent

    def _check_known(self, name: str) -> None:
        if self._known and name not in self._known:
            raise BadAnswer(f"unknown agent {name!r}; the environment's possible_agents: {', '.join(self._known)}")

    def _policy_of(self, name: str) -> str:
        """Raises PolicyMappingError if the agent's policy does not exist."""
        given = dict(self.spec.seats).get(name)
        try:
            module_id = given or self._map_agent(name, self.spec)
            known = module_id in self._samplers or script_of(module_id) is not None
        except Exception as error:
            raise PolicyMappingError(f"multi_agent: agent {name!r} cannot be mapped: {error}") from error
        if not known:
            allowed = ", ".join(sorted(self._samplers))
            raise PolicyMappingError(
                f"multi_agent: agent {name!r} is mapped to policy {module_id!r}; allowed: {allowed}"
            )
        return module_id

    def _tell(
        self, prompts: Mapping[str, str], infos: Mapping[str, AgentInfo], system: str
    ) -> dict[str, PolicyConversation]:
        """Gives the prompts to their agents → the conversations that are to reply."""
        asked = {}
        for name, message in prompts.items():
            agent = self._meet(name)
            if agent is None:
                raise BadAnswer(f"agent {name!r} is prompted, but a script plays it")
            if agent.ended:
                raise BadAnswer(f"agent {name!r} is prompted after its end")
            agent.hear(message, infos.get(name, AgentInfo()).state, system)
            asked[name] = agent
        return asked

    def _note(self, replies: Mapping[str, str], answer: GameAnswer) -> None:
        """Records the results of the replies."""
        for name in replies:
            turn, info = self._agents[name].trajectory.turns[-1], answer.infos.get(name, AgentInfo())
            turn.valid, turn.num_actions = info.valid, info.num_actions
        for name, reward in answer.rewards.items():
            if agent := self._meet(name):
                agent.pay(reward)
        for name in answer.ended:
            self._check_known(name)
        for name in [*self._agents] if answer.over else answer.ended:
            agent = self._meet(name)
            if agent and not agent.ended and (answer.over or answer.ended.get(name)):
                info = answer.infos.get(name, AgentInfo())
                agent.trajectory.success, agent.trajectory.outcome = info.success, info.outcome
                agent.close(answer.end_of(name))
