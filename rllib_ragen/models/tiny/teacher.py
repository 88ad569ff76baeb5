"""Solver demonstrations as conversations: what the embedded model is taught.

The teacher *plans*: it restates where things are and spells the solver's path move by move. Where a recipe says so it
first *wanders*: a reply of random actions that is part of the conversation but not learnt from, so that the model knows
later turns and places where a mistake has led, and gets no habit of making it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ragen_envs.bandit.arm_names import PAIRS
from ragen_envs.bandit.env import BanditEnv
from ragen_envs.countdown.env import CountdownEnv
from ragen_envs.frozen_lake.env import FrozenLakeTask
from ragen_envs.reply import format_reply
from ragen_envs.sokoban.env import SokobanEnv
from ragen_envs.sokoban.room import MOVES as SOKOBAN_MOVES
from ragen_envs.sokoban.room import shift
from ragen_envs.task import AnyTask
from ragen_envs.text import TextEnv

_MAX_WANDERED_ACTIONS = 4
"""Most actions of a wandering reply: chosen freely."""
_SYLLABLES = (
    *("ba", "can", "da", "el", "far", "gol", "ha", "in", "jo", "ket", "la", "mo", "no", "or", "pi", "qua", "ru", "sto"),
    *(
        "tra",
        "un",
        "ver",
        "wi",
        "ya",
        "zo",
        "ght",
        "dle",
        "ing",
        "mmo",
        "sh",
        "ch",
        "ck",
        "fi",
        "re",
        "wor",
        "st",
        "pl",
    ),
)

_NAMES = sorted(name for pairs in PAIRS.values() for pair in pairs for name in pair)
"""Names of all arms, from which any two are drawn: the pairs, and the better arm, are never shown."""
_INVENTED_SHARE = 0.25
"""Share of episodes with invented names, so that names must be copied and not memorised: chosen freely."""
_LETTERS = tuple("eeeetttaaaooiinnnssshhrrrdddlllcuumwfgypbvkjxqz")
"""Letters of invented names, roughly by their frequency in English."""


@dataclass(frozen=True)
class Message:
    """One message of a conversation."""

    role: str
    content: str
    trained: bool = True
    """Whether an assistant's message is trained on."""


@dataclass(frozen=True)
class Lesson:
    """Settings of how the teacher plays an episode."""

    wander_rate: float = 0.0
    """Chance, at each turn but the last, of a reply of random actions that is not trained on."""
    max_plan: int | None = None
    """Longest solution that the teacher shows: it ends the episode if the shortest one is longer; None: no bound."""


def demonstrate(env: TextEnv, seed: int, lesson: Lesson, rng: np.random.Generator) -> list[Message]:
    """Plays one episode as the teacher, on a train instance → its messages, maybe without a trained reply.

    Args:
        env: the text environment; its limits cap the plan.
        seed: instance seed.
        lesson: how the teacher plays.
        rng: chooses when and where to wander, and the names of arms.
    """
    observation, _ = env.reset(seed=seed, options={"split": "train"})
    messages = [Message("system", env.system_prompt), Message("user", observation)]
    done = False
    while not done:
        plan = env.task.solve()
        if plan is None:
            break
        wanders = env.turn < env.limits.max_turns and rng.random() < lesson.wander_rate
        if wanders:
            plan = _random_plan(env, rng)
        elif lesson.max_plan is not None and len(plan) > lesson.max_plan:
            break
        plan = plan[: min(env.limits.max_actions_per_turn, env.actions_left)]
        # What must be copied is written behind a space, as in the observation: the same tokens.
        said = [f" {plan[0]}"] if isinstance(env.task, BanditEnv | CountdownEnv) else plan
        reply = format_reply(said, _thought(env.task, plan) if env.limits.think else None)
        messages.append(Message("assistant", reply, trained=not wanders))
        observation, _, terminated, truncated, _ = env.step(reply)
        done = terminated or truncated
        if not done:
            messages.append(Message("user", observation))
    return _with_invented_arms(env.task, messages, rng) if isinstance(env.task, BanditEnv) else messages


def _random_plan(env: TextEnv, rng: np.random.Generator) -> list[str]:
    count = int(rng.integers(1, min(_MAX_WANDERED_ACTIONS, env.limits.max_actions_per_turn) + 1))
    return [env.task.random_action(rng) for _ in range(count)]


def _thought(task: AnyTask, plan: list[str]) -> str:
    """Returns the plan in words, with the coordinates of the observation."""
    if isinstance(task, SokobanEnv):
        return _sokoban_thought(task, plan)
    if isinstance(task, BanditEnv | CountdownEnv):
        return f"{task.describe()} : {plan[0]}".replace("\n", " ")
    if isinstance(task, FrozenLakeTask):
        path = " ".join(f"go {r} {c}" for r, c in task.path_cells(plan))
        return f"{task.describe_positions()} : {path}"
    raise NotImplementedError(f"{task.title} has no plans in words")


def _sokoban_thought(task: SokobanEnv, plan: list[str]) -> str:
    room, steps = task.room, []
    for move in plan:
        ahead = shift(room.player, SOKOBAN_MOVES[move])
        pushes = ahead in room.boxes
        room = room.moved(move)
        row, column = shift(ahead, SOKOBAN_MOVES[move]) if pushes else ahead
        steps.append(f"{'push' if pushes else 'go'} {row} {column}")
    return f"{task.room.coordinates()} : ".replace("\n", " ") + " ".join(steps)


def _with_invented_arms(task: BanditEnv, messages: list[Message], rng: np.random.Generator) -> list[Message]:
    """Returns the messages with other arm names, so that the model learns to copy names, not which of them pays."""
    first, second = rng.permutation(_NAMES)[:2]
    invented = rng.random() < _INVENTED_SHARE
    names = {
        arm: _invented_name(rng) if invented else str(name)
        for arm, name in zip(task.arms, (first, second), strict=True)
    }

    def renamed(text: str) -> str:
        for arm, name in names.items():
            text = text.replace(arm, name)
        return text

    return [replace(message, content=renamed(message.content)) for message in messages]


def _invented_name(rng: np.random.Generator) -> str:
    """Draws a name of syllables or letters: a model that can copy both can copy any name."""
    parts, fewest, most = (_SYLLABLES, 2, 4) if rng.random() < 0.5 else (_LETTERS, 4, 9)
    return "".join(rng.choice(parts, size=int(rng.integers(fewest, most + 1)))).capitalize()
