"""Solver demonstrations as conversations: what the embedded model is taught.

The teacher either *plans* (restates where things are and spells the solver's path move by move) or *guesses* (acts at
random, without a plan). How often it guesses decides how latent the model's ability is when reinforcement begins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ragen_envs.reply import format_reply
from ragen_envs.sokoban.env import SokobanEnv
from ragen_envs.sokoban.room import MOVES as SOKOBAN_MOVES
from ragen_envs.sokoban.room import shift
from ragen_envs.text import TextEnv

GUESS_THOUGHT = "no plan"
_MAX_GUESSED_ACTIONS = 4


@dataclass(frozen=True)
class Message:
    """One message of a conversation; only assistant messages are trained."""

    role: str
    content: str


def demonstrate(env: TextEnv, seed: int, guess_rate: float, rng: np.random.Generator) -> list[Message]:
    """One episode played by the teacher, on a train instance.

    Args:
        env: the text environment; its limits cap the plan.
        seed: instance seed.
        guess_rate: share of turns in which the teacher guesses instead of planning.
        rng: chooses when and what to guess.
    """
    observation, _ = env.reset(seed=seed, options={"split": "train"})
    messages = [Message("system", env.system_prompt), Message("user", observation)]
    done = False
    while not done:
        plan = env.task.solve()
        if plan is None:
            break
        if rng.random() < guess_rate:
            reply = _guess(env, rng)
        else:
            plan = plan[: min(env.limits.max_actions_per_turn, env.actions_left)]
            reply = format_reply(plan, _thought(env.task, plan))
        messages.append(Message("assistant", reply))
        observation, _, terminated, truncated, _ = env.step(reply)
        done = terminated or truncated
        if not done:
            messages.append(Message("user", observation))
    return messages


def _guess(env: TextEnv, rng: np.random.Generator) -> str:
    """Random actions; for free-text tasks the solver's expression with its numbers shuffled."""
    legal = env.task.legal_actions()
    if not legal:
        solution = env.task.solve() or ["0"]
        parts = solution[0].split()
        operands = [part for part in parts if part.isdigit()]
        shuffled = iter(rng.permutation(operands))
        return format_reply([" ".join(next(shuffled) if p.isdigit() else p for p in parts)], GUESS_THOUGHT)
    count = int(rng.integers(1, min(_MAX_GUESSED_ACTIONS, env.limits.max_actions_per_turn) + 1))
    return format_reply([legal[int(rng.integers(len(legal)))] for _ in range(count)], GUESS_THOUGHT)


def _thought(task: Any, plan: list[str]) -> str:
    """The plan in words, in the coordinates that the observation uses."""
    if isinstance(task, SokobanEnv):
        return _sokoban_thought(task, plan)
    cells = getattr(task, "path_cells", None)
    if cells is not None:
        path = " ".join(f"go {r} {c}" for r, c in cells(plan))
        return f"{task.describe_positions()} : {path}"
    return f"choose {plan[0]}"


def _sokoban_thought(task: SokobanEnv, plan: list[str]) -> str:
    room, steps = task.room, []
    for move in plan:
        ahead = shift(room.player, SOKOBAN_MOVES[move])
        pushes = ahead in room.boxes
        room = room.moved(move)
        row, column = shift(ahead, SOKOBAN_MOVES[move]) if pushes else ahead
        steps.append(f"{'push' if pushes else 'go'} {row} {column}")
    return f"{task.room.coordinates()} : ".replace("\n", " ") + " ".join(steps)
