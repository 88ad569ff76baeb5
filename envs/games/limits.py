"""GameLimits: the rule for illegal moves, and the form of prompts and replies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from ragen_envs.prompts import check_prompt
from ragen_envs.text import SHOWS, PromptStyle

SYSTEM_PARTS = ("system", "title", "rules", "reply_format", "max_turns", "illegal_move")
"""Placeholders of `GameLimits.system_prompt`; {system} is the environment's own."""
MESSAGE_PARTS = ("message", "state", "feedback", "turn", "seat", "legal_actions")
"""Placeholders of `GameLimits.prompt_template`; {message} is the environment's own."""
IllegalMove = Literal["penalty", "retry", "forfeit"]
"""Rules for a reply without a legal move. penalty: `illegal_reward`, and a random move is made for the seat. retry:
`illegal_reward`, and the seat is
asked again, `max_retries` times in a row, then it forfeits. forfeit: the seat loses at once."""


@dataclass(frozen=True)
class GameLimits:
    """The rules and limits of a game played by replies.

    Attributes:
        illegal_move: what happens after a reply that names no legal move, see IllegalMove.
        illegal_reward: added to the seat's reward for each such reply, under "penalty" and "retry"; ≤ 0.
        max_retries: how often in a row a seat is asked again under "retry".
        max_turns: replies that each seat may give; the game is then cut off for all. None: as many as the game takes,
            which is bounded under every rule.
        think: whether a reply must hold a `<think>` part (True) or must not (False).
        prompt_style: as in ragen_envs.text.TextLimits.
        list_actions: whether a prompt lists the legal actions.
        system_prompt, prompt_template: as in TextLimits, with SYSTEM_PARTS and MESSAGE_PARTS as placeholders.

    Raises:
        ValueError: a value out of range.
    """

    illegal_move: IllegalMove = "penalty"
    illegal_reward: float = -0.1
    max_retries: int = 2
    max_turns: int | None = None
    think: bool = True
    prompt_style: PromptStyle = "full"
    list_actions: bool = True
    system_prompt: str = ""
    prompt_template: str = ""

    def __post_init__(self) -> None:
        for name, allowed in (("illegal_move", IllegalMove), ("prompt_style", PromptStyle)):
            if getattr(self, name) not in get_args(allowed):
                raise ValueError(f"{name} must be {' or '.join(get_args(allowed))}, got {getattr(self, name)!r}")
        if not self.illegal_reward <= 0:
            raise ValueError(f"illegal_reward must be ≤ 0, got {self.illegal_reward}")
        if self.max_retries < 0:
            raise ValueError(f"max_retries must be ≥ 0, got {self.max_retries}")
        if self.max_turns is not None and self.max_turns < 1:
            raise ValueError(f"max_turns must be ≥ 1 or None, got {self.max_turns}")
        check_prompt(self.system_prompt, SYSTEM_PARTS)
        check_prompt(self.prompt_template, MESSAGE_PARTS, SHOWS)

    def told(self) -> str:
        """Returns the illegal-move rule as a sentence for players."""
        costs = f"costs {-self.illegal_reward:g}"
        return {
            "penalty": f"A reply that names no legal action {costs}, and a random one is played for you.",
            "retry": f"A reply that names no legal action {costs}; you are asked again, up to {self.max_retries} "
            "time(s), then you lose.",
            "forfeit": "A reply that names no legal action loses the game.",
        }[self.illegal_move]
