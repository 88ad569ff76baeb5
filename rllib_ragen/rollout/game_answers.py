"""A MultiAgentEnv's answers as plain data, read in its own thread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ray.rllib.env.multi_agent_env import MultiAgentEnv

from rllib_ragen.rollout.env_answers import END_REASONS, BadAnswer, reward_of, text_of
from rllib_ragen.rollout.scripted_seats import script_of
from rllib_ragen.rollout.specs import EpisodeSpec
from rllib_ragen.types import StopReason

_ALL = "__all__"


@dataclass(frozen=True)
class GameSpec(EpisodeSpec):
    """An episode of several agents."""

    seats: tuple[tuple[str, str], ...] = ()
    """Pairs (agent, policy id or `script:<player>`) of agents with a given player; others are mapped to a policy."""
    script_seed: int | None = None
    """Seed from which each scripted reply gets its own; None: scripts draw from the outcome seed's stream."""


@dataclass(frozen=True)
class AgentInfo:
    """The entries of an agent's info that a rollout uses."""

    state: str = ""
    valid: bool = True
    num_actions: int = 1
    success: bool = False
    outcome: str = ""
    stop_reason: str = ""


@dataclass(frozen=True)
class GameOpening:
    """An environment's answer to a reset."""

    system: str
    possible_agents: tuple[str, ...]
    """All agents; empty if the environment does not have the attribute."""
    prompts: dict[str, str]
    """Prompts of the agents that are to reply."""
    infos: dict[str, AgentInfo]
    instance_key: str
    """Canonical text of the instance; empty if the environment has none."""


@dataclass(frozen=True)
class GameAnswer:
    """An environment's answer to replies."""

    prompts: dict[str, str]
    """Prompts of the agents that are to reply next, without final observations of ended agents."""
    rewards: dict[str, float]
    ended: dict[str, bool]
    """Whether agents have ended, for those that the environment mentions."""
    cut_off: frozenset[str]
    """Agents that were truncated."""
    over: bool
    """Whether the game is over for all."""
    over_cut_off: bool
    """Whether it was truncated for all."""
    infos: dict[str, AgentInfo]

    def end_of(self, name: str) -> StopReason:
        """Returns the stop reason of an agent that has ended."""
        info = self.infos.get(name, AgentInfo())
        if info.stop_reason in END_REASONS:
            return StopReason(info.stop_reason)
        if name in self.cut_off or (self.over_cut_off and not self.ended.get(name, False)):
            return StopReason.MAX_TURNS
        return StopReason.GOAL if info.success else StopReason.FAILED


def read_game_opening(spec: GameSpec, env: MultiAgentEnv) -> GameOpening:
    """Starts the game. Raises the environment's errors, and BadAnswer for an invalid answer."""
    options: dict[str, object] = {"split": spec.split, "outcome_seed": spec.outcome_seed}
    scripts = {agent: name for agent, player in spec.seats if (name := script_of(player)) is not None}
    if scripts:
        options["scripts"] = scripts
    if spec.script_seed is not None:
        options["script_seed"] = spec.script_seed
    prompts, infos = env.reset(seed=spec.env_seed, options=options)
    return GameOpening(
        system=text_of(getattr(env, "system_prompt", ""), "a system prompt"),
        possible_agents=tuple(_name(name) for name in env.possible_agents),
        prompts={_name(name): _prompt(name, text) for name, text in prompts.items()},
        infos=_agent_infos(infos),
        instance_key=text_of(getattr(env, "instance_key", ""), "an instance key"),
    )


def read_game_answer(replies: Mapping[str, str], env: MultiAgentEnv) -> GameAnswer:
    """Makes a step with the replies. Raises as `read_game_opening` does."""
    prompts, rewards, terminated, truncated, infos = env.step(dict(replies))
    named = [name for name in {**terminated, **truncated} if name != _ALL]
    ended = {_name(name): bool(terminated.get(name) or truncated.get(name)) for name in named}
    return GameAnswer(
        prompts={_name(name): _prompt(name, text) for name, text in prompts.items() if not ended.get(name)},
        rewards={_name(name): reward_of(reward, f"agent {name!r} got") for name, reward in rewards.items()},
        ended=ended,
        cut_off=frozenset(name for name in named if truncated.get(name)),
        over=bool(terminated.get(_ALL) or truncated.get(_ALL)),
        over_cut_off=bool(truncated.get(_ALL)),
        infos=_agent_infos(infos),
    )


def _name(value: object) -> str:
    return text_of(value, "an agent's name")


def _prompt(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise BadAnswer(f"agent {name!r} is prompted with a {type(value).__name__}, not with text")
    return text_of(value, f"agent {name!r} a prompt")


def _agent_infos(infos: Mapping[str, Mapping[str, Any]]) -> dict[str, AgentInfo]:
    return {
        name: AgentInfo(
            state=text_of(info.get("state", ""), "a state"),
            valid=bool(info.get("valid", True)),
            num_actions=len(info.get("actions", [None])),
            success=bool(info.get("success", False)),
            outcome=text_of(info.get("outcome", ""), "an outcome"),
            stop_reason=text_of(info.get("stop_reason", ""), "a stop_reason"),
        )
        for name, info in infos.items()
    }
