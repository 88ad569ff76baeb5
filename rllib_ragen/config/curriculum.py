"""What a run may say of a curriculum: an environment's levels of difficulty, and when which of them is played."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ragen_envs.tree import Tree
from rllib_ragen.config.section import Section


class LevelSection(Section):
    """One level: what differs from the environment's own settings."""

    task: Tree = Field(default_factory=dict, description="settings of the task, over those of the environment")
    max_turns: int | None = Field(None, ge=1, le=1_000_000, description="null: the environment's")
    max_actions_per_turn: int | None = Field(None, ge=1, le=1_000_000, description="null: the environment's")
    max_actions: int | None = Field(None, ge=1, le=1_000_000, description="null: the environment's")


class CurriculumSection(Section):
    """Levels of an environment, and how recent success chooses among them (docs/environments.md)."""

    levels: list[LevelSection] = Field(
        min_length=2, max_length=100, description="from the easiest to the target; a run begins at the first"
    )
    window: int = Field(16, ge=1, le=1_000_000, description="groups of a level whose success counts as recent")
    raise_at: float = Field(
        0.7, gt=0, le=1, description="success over a full window of the highest open level that opens the next one"
    )
    low: float = Field(0.1, ge=0, le=1, description="success below which a level is too hard for now")
    high: float = Field(0.9, ge=0, le=1, description="success above which a level is learnt")
    outside: float = Field(
        0.2, gt=0, le=1, description="weight of levels that are too hard or learnt, against 1 of the others"
    )
    eval_levels: Literal["last", "all"] = Field(
        "last", description="what validation and test play: the target level, or every level besides, each by itself"
    )
