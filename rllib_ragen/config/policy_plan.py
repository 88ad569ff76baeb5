"""The policies and seats of a run, decided before anything is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rllib_ragen.config.environments import World
from rllib_ragen.config.schema import MultiAgentSection


@dataclass(frozen=True)
class PolicyPlan:
    """The policies of a run, and their assignment to seats."""

    seed: int
    """Run seed."""
    group_size: int
    """Trajectories per task instance."""
    module_ids: tuple[str, ...]
    """All policies, sorted."""
    trained: tuple[str, ...]
    """Policies that are trained, sorted."""
    mapping_fn: Callable[..., Any]
    """RLlib's `policy_mapping_fn`: (agent id, episode) → policy id, or `script:<player>`."""
    several_agents: bool
    """Whether the environments are multi-agent."""
    env: str | None
    """Short name of the task or game; None: a foreign environment."""
    game: str | None
    """Short name of the game; None: one agent, or a foreign environment."""
    task: Mapping[str, object]
    """Settings of the task or game."""
    worlds: tuple[World, ...]
    """Environments of one agent, with their levels; none where somebody else's is played."""
    section: MultiAgentSection
    """The section `multi_agent`: self-play, a policy per role, a league, or a scripted opponent."""
