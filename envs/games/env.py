"""TextGameEnv: turns a TextGame into a text environment for several seats, with prompts, replies and illegal moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import gymnasium as gym
import numpy as np

from ragen_envs.games.game import TextGame
from ragen_envs.games.limits import GameLimits
from ragen_envs.prompts import fill_prompt
from ragen_envs.reply import Reply, format_reply, parse_reply
from ragen_envs.seeds import Stream, generator
from ragen_envs.spaces import AnyText
from ragen_envs.task import chance_seed, read_options
from ragen_envs.tree import Tree


class GameStep(NamedTuple):
    """The result of `step`: Gymnasium's 5-tuple, each by seat."""

    observations: dict[str, str]
    """Prompts of the seats to act next, and final observations of those that have just ended."""
    rewards: dict[str, float]
    terminated: dict[str, bool]
    truncated: dict[str, bool]
    infos: dict[str, Tree]


@dataclass
class _SeatState:
    """The environment's state of one seat."""

    substitute_rng: np.random.Generator
    """Generator of the moves that are made for the seat after an illegal reply."""
    turns: int = 0
    retries: int = 0
    reward_since: float = 0.0
    """Rewards since the seat's last reply was read."""
    note: str = ""
    valid: bool = False
    reply: Reply = field(default_factory=lambda: Reply(well_formed=False))
    actions: list[str] = field(default_factory=list)
    forfeited: bool = False
    cut_off: bool = False


class TextGameEnv:
    """A game played by replies. Observation: the user message of a seat's turn. Action: its reply text.

    `to_act` are the seats that are asked for a reply now. `step` takes the replies of all of them or of some: moves
    that are made at once are held back, unseen by all, until the last one is in, so one reply at a time gives the same
    game as all together. A reply names exactly one action; the rest is GameLimits' rule for illegal moves.

    Rewards come to every seat that is still in the game, also to those that did not act. An info holds `success`,
    `outcome` ("", "win", "draw" or "loss"), `valid` (the last reply named a legal action), `well_formed`, `actions`
    (what was played for the last reply), `thought`, `stop_reason` ("", "goal", "failed", "forfeit" or "max_turns")
    and `state` (what the seat sees, without counters of turns); none of it is told to other seats.
    """

    metadata: Tree = {"render_modes": ["ansi"]}  # noqa: RUF012 - as Gymnasium and PettingZoo declare it

    def __init__(self, game: TextGame, limits: GameLimits | None = None) -> None:
        self.game = game
        self.limits = limits or GameLimits()
        self.possible_agents: list[str] = list(game.seats)
        self.agents: list[str] = []
        self._observation_spaces = {seat: AnyText() for seat in game.seats}
        self._action_spaces = {seat: AnyText() for seat in game.seats}
        self._states: dict[str, _SeatState] = {}
        self._held: dict[str, str] = {}
        self._forfeits: list[str] = []
        self._seeds = np.random.default_rng()

    def observation_space(self, seat: str) -> AnyText:
        """Returns any text; the same object each time."""
        return self._observation_spaces[seat]

    def action_space(self, seat: str) -> AnyText:
        """Returns any text; the same object each time."""
        return self._action_spaces[seat]

    @property
    def system_prompt(self) -> str:
        """Rules, reply format and the illegal-move rule (full style), or the game's title (brief style); or what
        `GameLimits.system_prompt` says.
        """
        limits = self.limits
        if not limits.system_prompt:
            return self._own_system_prompt
        parts = {
            "system": self._own_system_prompt,
            "title": self.game.title,
            "rules": self.game.rules(),
            "reply_format": self._reply_format,
            "max_turns": "any number of" if limits.max_turns is None else str(limits.max_turns),
            "illegal_move": limits.told(),
        }
        return fill_prompt(limits.system_prompt, parts)

    @property
    def _own_system_prompt(self) -> str:
        if self.limits.prompt_style == "brief":
            return self.game.title
        turns = "" if self.limits.max_turns is None else f" You have {self.limits.max_turns} turn(s)."
        rules, form = self.game.rules(), self._reply_format
        return f"{rules}\nReply with {form}, with exactly one action.{turns} {self.limits.told()}"

    @property
    def _reply_format(self) -> str:
        return format_reply(["action"], "your reasoning" if self.limits.think else None)

    @property
    def to_act(self) -> tuple[str, ...]:
        """The seats whose reply is awaited, in the game's order; empty when the game is over."""
        if not self.agents:
            return ()
        return tuple(seat for seat in self.game.to_move if seat not in self._held and seat not in self._forfeits)

    def reset(self, *, seed: int | None = None, options: Tree | None = None) -> tuple[dict[str, str], dict[str, Tree]]:
        """Starts a game → (prompts of the seats to act, infos of all); `options` as in TextTask (split, outcome_seed).

        Raises:
            ValueError: a negative seed, an unknown option or split.
        """
        split, outcome_seed = read_options(seed, options)
        seed_given = seed is not None
        seed = int(self._seeds.integers(2**31)) if seed is None else seed
        outcome_seed = seed if outcome_seed is None else outcome_seed
        if seed < 0:
            raise ValueError(f"instance seed must be ≥ 0, got {seed}")
        chance = chance_seed(outcome_seed)
        if seed_given:
            self._seeds = np.random.default_rng(seed)
        self.game.reset(seed, split, outcome_seed)
        # A stream for each seat: what is drawn for one must not depend on when another replied.
        self._states = {
            seat: _SeatState(generator(Stream.SUBSTITUTE_MOVES, chance, index))
            for index, seat in enumerate(self.possible_agents)
        }
        self._held, self._forfeits = {}, []
        self.agents = list(self.possible_agents)
        return {seat: self.observe(seat) for seat in self.to_act}, {seat: self.info(seat) for seat in self.agents}

    def step(self, replies: Mapping[str, str]) -> GameStep:
        """Reads the replies of some or all of `to_act`, and moves once all are in.

        Raises:
            ResetNeeded: the game is over.
            ValueError: no reply, or one of a seat that is not to act.
        """
        if not self.agents:
            raise gym.error.ResetNeeded("the game is over (or never begun): call reset()")
        if not replies or not set(replies) <= set(self.to_act):
            raise ValueError(f"to act: {', '.join(self.to_act)}; got replies of {', '.join(replies) or 'nobody'}")
        rewards = dict.fromkeys(self.agents, 0.0)
        for seat, text in replies.items():
            rewards[seat] += self._read(seat, text)
        if not self.to_act:
            self._move(rewards)
        for seat, reward in rewards.items():
            self._states[seat].reward_since += reward
        return self._result(rewards)

    def observe(self, seat: str) -> str:
        """Says what `seat` is told now; asking changes nothing. It holds nothing of a held-back move."""
        state, seen = self._states[seat], self.game.observe(seat)
        feedback = f"Reward {state.reward_since:g}" + (f", {state.note}" if state.note else "") if state.turns else ""
        told = [feedback] if feedback else []
        if self._stop_reason(seat):
            return "\n".join([*told, seen, self._last_word(seat)])
        lines = [*told, f"Turn {state.turns + 1}", seen]
        if seat not in self.to_act:
            return "\n".join([*lines, "Wait for the others"])
        template = self.limits.prompt_template
        legal = ", ".join(self.game.legal_actions(seat)) if self.limits.list_actions or template else ""
        message = "\n".join([*lines, *([f"Legal actions: {legal}"] if self.limits.list_actions else [])])
        if not template:
            return message
        parts = {
            "message": message,
            "state": seen,
            "feedback": feedback,
            "turn": str(state.turns + 1),
            "seat": seat,
            "legal_actions": legal,
        }
        return fill_prompt(template, parts)

    def info(self, seat: str) -> Tree:
        """Returns the seat's info, see the class."""
        state, outcome = self._states[seat], self.game.outcome(seat)
        return {
            "success": self.game.success(seat),
            "outcome": "" if outcome is None else outcome.value,
            "valid": state.valid,
            "well_formed": state.reply.well_formed,
            "actions": list(state.actions),
            "thought": state.reply.thought,
            "stop_reason": self._stop_reason(seat),
            "state": self.game.observe(seat),
        }

    def render(self) -> str:
        """Returns the view of each seat, one after the other."""
        return "\n\n".join(f"[{seat}]\n{self.game.observe(seat)}" for seat in self.possible_agents)

    def close(self) -> None:
        """Does nothing."""

    def _read(self, seat: str, text: str) -> float:
        """Holds back the move that a reply names, or applies the rule for illegal ones → reward."""
        state = self._states[seat]
        state.turns += 1
        state.reward_since, state.note, state.actions = 0.0, "", []
        state.reply = parse_reply(text, think=self.limits.think)
        named = state.reply.actions
        action = self.game.parse_action(seat, named[0]) if len(named) == 1 else None
        state.valid = action is not None
        if action is not None:
            state.retries = 0
            return self._hold(seat, action)
        if self.limits.illegal_move == "penalty":
            legal = self.game.legal_actions(seat)
            substitute = legal[int(state.substitute_rng.integers(len(legal)))]
            state.note = f"no legal action, {substitute} was played for you"
            return self._hold(seat, substitute) + self.limits.illegal_reward
        if self.limits.illegal_move == "retry" and state.retries < self.limits.max_retries:
            state.retries += 1
            state.note = f"no legal action, try again ({self.limits.max_retries - state.retries} left)"
            return self.limits.illegal_reward
        state.note, state.forfeited = "no legal action, forfeited", True
        self._forfeits.append(seat)
        return self.limits.illegal_reward if self.limits.illegal_move == "retry" else 0.0

    def _hold(self, seat: str, action: str) -> float:
        self._held[seat] = action
        self._states[seat].actions = [action]
        return 0.0

    def _move(self, rewards: dict[str, float]) -> None:
        """Plays the held-back moves once all have replied: forfeits first, then the moves of the remaining seats."""
        if self._forfeits:
            losers = tuple(seat for seat in self.possible_agents if seat in self._forfeits)
            _add(rewards, self.game.forfeit(losers))
        moves = {seat: action for seat, action in self._held.items() if seat in self.game.to_move}
        for seat in self._held.keys() - moves.keys():
            self._states[seat].actions = []
        if moves:
            _add(rewards, self.game.play(moves))
        self._held, self._forfeits = {}, []

    def _result(self, rewards: dict[str, float]) -> GameStep:
        spent = [seat for seat in self.to_act if self._states[seat].turns == self.limits.max_turns]
        for seat in self.agents:
            self._states[seat].cut_off = bool(spent) and not self.game.terminated(seat)
        seats = list(self.agents)
        terminated = {seat: self.game.terminated(seat) for seat in seats}
        truncated = {seat: self._states[seat].cut_off for seat in seats}
        self.agents = [seat for seat in seats if not (terminated[seat] or truncated[seat])]
        told = [seat for seat in seats if seat in self.to_act or seat not in self.agents]
        return GameStep(
            {seat: self.observe(seat) for seat in told},
            rewards,
            terminated,
            truncated,
            {seat: self.info(seat) for seat in seats},
        )

    def _stop_reason(self, seat: str) -> str:
        state = self._states[seat]
        if not self.game.terminated(seat):
            return "max_turns" if state.cut_off else ""
        if state.forfeited:
            return "forfeit"
        return "goal" if self.game.success(seat) else "failed"

    def _last_word(self, seat: str) -> str:
        outcome = self.game.outcome(seat)
        return "The game is cut off" if outcome is None else f"The game is over: {outcome.value}"


def _add(rewards: dict[str, float], more: Mapping[str, float]) -> None:
    """Adds rewards of seats that are still in the game; others get none any more."""
    for seat in rewards:
        rewards[seat] += float(more.get(seat, 0.0))
