"""Who plays in a run: what is decided about policies and seats before anything is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rllib_ragen.config.environments import World
from rllib_ragen.config.schema import MultiAgentSection


@dataclass(frozen=True)
class PolicyPlan:
    """The policies of a run, and how they are seated."""

    seed: int
    """Run seed."""
    group_size: int
    """Trajectories per task instance."""
    module_ids: tuple[str, ...]
    """All policies, sorted."""
    trained: tuple[str, ...]
    """Policies that learn, sorted."""
    mapping_fn: Callable[..., Any]
    """RLlib's `policy_mapping_fn`: (agent id, episode) → policy id, or `script:<player>`."""
    several_agents: bool
    """Whether environments are multi-agent ones."""
    env: str | None
    """Short name of the task or game; None: somebody else's environment."""
    game: str | None
    """Short name of the game; None: one agent, or somebody else's environment."""
    task: Mapping[str, Any]
    """Settings of the task or game."""
    worlds: tuple[World, ...]
    """Environments of one agent, with their levels; none where somebody else's is played."""
    section: MultiAgentSection
    """Self-play, a policy per role, a league, or a script as opponent."""
