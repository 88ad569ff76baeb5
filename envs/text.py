"""TextEnv: turns a TextTask into a text environment with turns, caps, a format penalty and prompts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Literal

import gymnasium as gym

from ragen_envs.prompts import check_prompt, fill_prompt
from ragen_envs.reply import SEPARATOR, parse_reply
from ragen_envs.spaces import AnyText
from ragen_envs.task import AnyTask
from ragen_envs.tree import Tree

PromptStyle = Literal["full", "brief"]
WITHOUT_THOUGHT = ", answer only"
"""What the brief style says behind the title where replies hold no thought: it cannot be told from the state."""
SYSTEM_PARTS = ("system", "title", "rules", "reply_format", "max_turns", "max_actions", "max_actions_per_turn")
"""Placeholders of `TextLimits.system_prompt`; {system} is the environment's own."""
MESSAGE_PARTS = ("message", "state", "feedback", "turn", "max_turns", "actions_left")
"""Placeholders of `TextLimits.prompt_template`; {message} is the environment's own."""
SHOWS = ("message", "state")
"""Placeholders of which a `prompt_template` must have one."""


@dataclass(frozen=True)
class TextLimits:
    """Limits of an episode and the form of its prompts (RAGEN's defaults: 5 turns, 10 actions, penalty −0.1).

    Attributes:
        max_turns: most turns of an episode.
        max_actions_per_turn: most actions of one reply that are run; the rest is ignored and the next prompt says so.
        max_actions: most actions of an episode.
        format_penalty: added to the reward of a turn with no valid action.
        think: whether a reply must hold a `<think>` part (True) or must not (False).
        prompt_style: "full" tells rules and reply format in the system message; "brief" only names the task, for
            models that were taught it, where prompt tokens cost more than they tell.
        system_prompt: system message in place of that, with SYSTEM_PARTS as placeholders; empty: none is given.
        prompt_template: user message of every turn, with MESSAGE_PARTS as placeholders; empty: `{message}`.
    """

    max_turns: int = 5
    max_actions_per_turn: int = 5
    max_actions: int = 10
    format_penalty: float = -0.1
    think: bool = True
    prompt_style: PromptStyle = "full"
    system_prompt: str = ""
    prompt_template: str = ""

    def __post_init__(self) -> None:
        for name in ("max_turns", "max_actions_per_turn", "max_actions"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be ≥ 1, got {getattr(self, name)}")
        if self.prompt_style not in ("full", "brief"):
            raise ValueError(f"prompt_style must be full or brief, got {self.prompt_style!r}")
        check_prompt(self.system_prompt, SYSTEM_PARTS)
        check_prompt(self.prompt_template, MESSAGE_PARTS, SHOWS)


def check_limit_names(kind: type[Any], given: Iterable[str]) -> None:
    """Raises ValueError, naming the allowed names, if one of `given` is not a field of the dataclass `kind`."""
    allowed = [field.name for field in fields(kind)]
    for key in given:
        if key not in allowed:
            raise ValueError(f"unknown limit {key!r}; allowed: {', '.join(allowed)}")


class TextEnv(gym.Env[str, str]):
    """A task played by replies. Observation: the user message of the turn. Action: the reply text.

    `step` returns Gymnasium's 5-tuple; the reward is the turn's: the sum over its actions, plus the format penalty.
    `info` holds `success`, `valid` (a valid action ran), `actions` (names run), `dropped` (parts that named no action
    or came after the per-turn cap), `thought`, `stop_reason` ("", "goal", "failed", "max_turns" or "max_actions") and
    `state` (the task's state as text, without counters of turns and actions); `reset` gives `state`, too.
    `system_prompt` is the conversation's system message.
    """

    metadata: Tree = {"render_modes": ["ansi"]}  # noqa: RUF012 - Gymnasium declares it so

    def __init__(self, task: AnyTask, limits: TextLimits | None = None) -> None:
        """Raises ValueError if the caps make success impossible."""
        self.task = task
        self.limits = limits or TextLimits()
        _check_reach(task, self.limits)
        self.observation_space = AnyText()
        self.action_space = AnyText()
        self.turn = 0
        self.actions_taken = 0
        self._done = True

    @property
    def system_prompt(self) -> str:
        """Rules and reply format (full style), or the task's title and whether to think (brief style); or what
        `TextLimits.system_prompt` says.
        """
        limits = self.limits
        if not limits.system_prompt:
            return self._own_system_prompt
        parts = {
            "system": self._own_system_prompt,
            "title": self.task.title,
            "rules": self.task.rules(),
            "reply_format": self._reply_format,
            "max_turns": str(limits.max_turns),
            "max_actions": str(limits.max_actions),
            "max_actions_per_turn": str(limits.max_actions_per_turn),
        }
        return fill_prompt(limits.system_prompt, parts)

    @property
    def _own_system_prompt(self) -> str:
        limits = self.limits
        if limits.prompt_style == "brief":
            return self.task.title if limits.think else f"{self.task.title}{WITHOUT_THOUGHT}"
        return (
            f"{self.task.rules()}\n"
            f"Reply with {self._reply_format}, with at most {limits.max_actions_per_turn} action(s) in a reply. "
            f"You have {limits.max_turns} turn(s) and {limits.max_actions} action(s) in all. "
            f"A reply without a valid action costs {-limits.format_penalty:g} and changes nothing."
        )

    @property
    def _reply_format(self) -> str:
        several = f"action {SEPARATOR} action" if self.limits.max_actions_per_turn > 1 else "action"
        form = "<think>your reasoning</think><answer>{}</answer>" if self.limits.think else "<answer>{}</answer>"
        return form.format(several)

    @property
    def actions_left(self) -> int:
        """Number of actions that the episode may still take."""
        return self.limits.max_actions - self.actions_taken

    def reset(self, *, seed: int | None = None, options: Tree | None = None) -> tuple[str, Tree]:
        """Starts an episode; `options` as in TextTask (split, outcome_seed)."""
        super().reset(seed=seed)
        _, task_info = self.task.reset(seed=seed, options=options)
        self.turn, self.actions_taken, self._done = 1, 0, False
        state = self.task.describe()
        return self._prompt(state), {**task_info, "success": False, "stop_reason": "", "state": state}

    def step(self, action: str) -> tuple[str, float, bool, bool, Tree]:
        """Plays one turn with the reply `action`. Raises gym.error.ResetNeeded after the end."""
        if self._done:
            raise gym.error.ResetNeeded("the episode has ended (or never begun): call reset()")
        reply = parse_reply(action, think=self.limits.think)
        run, dropped, reward, terminated = self._run(reply.actions)
        if not run:
            reward += self.limits.format_penalty
        out_of_turns = self.turn >= self.limits.max_turns
        truncated = not terminated and (out_of_turns or self.actions_left == 0)
        self._done = terminated or truncated
        if terminated:
            stop_reason = "goal" if self.task.success else "failed"
        else:
            stop_reason = ("max_turns" if out_of_turns else "max_actions") if truncated else ""
        self.turn += 1
        state = self.task.describe()
        info = {
            "success": self.task.success,
            "valid": bool(run),
            "well_formed": reply.well_formed,
            "actions": run,
            "dropped": dropped,
            "thought": reply.thought,
            "stop_reason": stop_reason,
            "state": state,
        }
        feedback = _feedback(reward, run, dropped)
        observation = f"{feedback}\n{state}" if self._done else self._prompt(state, feedback)
        return observation, float(reward), terminated, truncated, info

    def render(self) -> str:  # type: ignore[override]
        """Returns the task's state as text."""
        return self.task.describe()

    def close(self) -> None:
        """Closes the task."""
        self.task.close()  # type: ignore[no-untyped-call]

    def _run(self, names: tuple[str, ...]) -> tuple[list[str], list[str], float, bool]:
        """Runs the valid actions among `names` within the caps → (run, dropped, reward, terminated)."""
        run: list[str] = []
        dropped: list[str] = []
        reward, terminated = 0.0, False
        for name in names:
            full = len(run) >= self.limits.max_actions_per_turn or self.actions_left == 0
            # Not read where it could not be run: a reply may name very many.
            parsed = None if full or terminated else self.task.parse_action(name)
            if parsed is None:
                dropped.append(name)
                continue
            _, step_reward, terminated, _, _ = self.task.step(parsed)
            reward += float(step_reward)
            self.actions_taken += 1
            run.append(name)
        return run, dropped, reward, terminated

    def _prompt(self, state: str, feedback: str = "") -> str:
        told = [feedback] if feedback else []
        message = "\n".join([*told, f"Turn {self.turn}, {self.actions_left} actions left", state])
        if not self.limits.prompt_template:
            return message
        parts = {
            "message": message,
            "state": state,
            "feedback": feedback,
            "turn": str(self.turn),
            "max_turns": str(self.limits.max_turns),
            "actions_left": str(self.actions_left),
        }
        return fill_prompt(self.limits.prompt_template, parts)


def _check_reach(task: AnyTask, limits: TextLimits) -> None:
    allowed = min(limits.max_actions, limits.max_turns * limits.max_actions_per_turn)
    if allowed < task.fewest_actions():
        raise ValueError(
            f"{task.title} with these settings takes at least {task.fewest_actions()} actions, but "
            f"max_turns={limits.max_turns}, max_actions_per_turn={limits.max_actions_per_turn} and "
            f"max_actions={limits.max_actions} allow {allowed}: success would be impossible"
        )


def _feedback(reward: float, run: list[str], dropped: list[str]) -> str:
    """Returns the sentences of the next prompt about the last turn."""
    if not run:
        return f"Reward {reward:.1f}, no valid action"
    return f"Reward {reward:.1f}" + (f", ignored {len(dropped)}" if dropped else "")
