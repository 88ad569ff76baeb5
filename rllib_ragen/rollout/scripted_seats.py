"""A text game as an RLlib MultiAgentEnv, some of whose seats may be played by scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from ray.rllib.env.multi_agent_env import MultiAgentEnv

from ragen_envs.games.env import GameStep, TextGameEnv
from ragen_envs.games.game import TextGame
from ragen_envs.games.players import PLAYERS, Player, choose
from ragen_envs.reply import format_reply
from ragen_envs.seeds import Stream, generator, seed_of
from ragen_envs.tree import Tree

V = TypeVar("V")
SCRIPT = "script:"
"""Prefix of scripted players among policy ids: `script:uniform` is ragen_envs.games.players.PLAYERS["uniform"]."""
_Dicts = tuple[dict[str, str], dict[str, float], dict[str, bool], dict[str, bool], dict[str, Tree]]


def script_of(policy_id: str) -> str | None:
    """Returns the scripted player in a policy id; None if it is a policy's. Raises ValueError for an unknown player."""
    if not policy_id.startswith(SCRIPT):
        return None
    name = policy_id.removeprefix(SCRIPT)
    if name not in PLAYERS:
        raise ValueError(f"there is no scripted player {name!r}; allowed: {', '.join(PLAYERS)}")
    return name


@dataclass
class _Script:
    """A scripted player at a seat of one game."""

    player: Player
    rng: np.random.Generator | None
    """Generator of its moves; None: each reply has its own seed."""
    seed: Sequence[int] = ()
    """Words from which the seeds of replies are derived."""
    turn: int = 0

    def action(self, game: TextGame, seat: str) -> str:
        """Returns the player's next action."""
        rng = self.rng or np.random.default_rng(seed_of(Stream.TURN_SAMPLING, *self.seed, self.turn))
        self.turn += 1
        return choose(self.player(game, seat), rng)


class GameMultiAgentEnv(MultiAgentEnv):
    """RLlib's view of a TextGameEnv: dictionaries by seat, prompts of exactly the seats that are to reply.

    `reset` takes the options of TextGameEnv, and `scripts`: {seat: name of a scripted player}. Those seats are played
    here, through the text interface, and never appear outside; their rewards are not returned. With `script_seed` each
    of their replies has its own seed, derived from it; else they draw from the stream of outcome_seed. If scripts play
    the game to its end before another seat is to reply, `reset` prompts nobody, and `step({})` returns the end.
    """

    def __init__(self, game_env: TextGameEnv) -> None:
        super().__init__()
        self.game_env = game_env
        self.possible_agents = list(game_env.possible_agents)
        self.agents = list(self.possible_agents)
        self.observation_spaces = {seat: game_env.observation_space(seat) for seat in self.possible_agents}
        self.action_spaces = {seat: game_env.action_space(seat) for seat in self.possible_agents}
        self._scripts: dict[str, _Script] = {}
        self._at_reset: _Dicts = ({}, {}, {}, {}, {})

    @property
    def system_prompt(self) -> str:
        """The system prompt, the same for all seats."""
        return self.game_env.system_prompt

    @property
    def instance_key(self) -> str:
        """Canonical text of the instance; empty in a game without instances of its own, in which every play is a new
        draw.
        """
        return self.game_env.game.instance_key if self.game_env.game.has_splits else ""

    def reset(self, *, seed: int | None = None, options: Tree | None = None) -> tuple[dict[str, str], dict[str, Tree]]:
        """Starts a game, and plays it until a seat without a script is to reply.

        Raises:
            ValueError: an unknown option, seat or player.
        """
        rest = dict(options or {})
        scripts: dict[str, str] = rest.pop("scripts", {})
        for seat, name in scripts.items():
            if seat not in self.possible_agents:
                raise ValueError(f"there is no seat {seat!r}; allowed: {', '.join(self.possible_agents)}")
            script_of(SCRIPT + name)
        self._scripts = {}
        own_seed: int | None = rest.pop("script_seed", None)
        outcome_seed = int(rest.get("outcome_seed", seed or 0))
        for seat, name in scripts.items():
            index, player = self.possible_agents.index(seat), PLAYERS[name]
            if own_seed is None:
                # A stream for each seat: what one script draws must not depend on the others.
                self._scripts[seat] = _Script(player, generator(Stream.SCRIPTED_SEAT, outcome_seed, index))
            else:
                self._scripts[seat] = _Script(player, None, (own_seed, index))
        prompts, infos = self.game_env.reset(seed=seed, options=rest)
        self.begin()
        self._at_reset = self._played_on(GameStep(prompts, {}, {}, {}, infos))
        return self._at_reset[0], self._at_reset[4]

    def step(self, action_dict: dict[str, str]) -> _Dicts:
        """Makes a step, as in MultiAgentEnv. Raises ValueError for a reply of a seat that is not to act."""
        if not action_dict and not self.game_env.agents:
            return self._at_reset
        return self._played_on(self.move(action_dict))

    def begin(self) -> None:
        """Does nothing: a hook at the start of a game, for records."""

    def move(self, replies: Mapping[str, str]) -> GameStep:
        """Gives replies, scripted or not, to the game: a hook for records."""
        return self.game_env.step(replies)

    def close(self) -> None:
        """Does nothing."""
        self.game_env.close()

    def _played_on(self, step: GameStep) -> _Dicts:
        """Lets the scripts reply until another seat is to, and sums up the steps."""
        prompts, rewards = dict(step.observations), dict(step.rewards)
        terminated, truncated, infos = dict(step.terminated), dict(step.truncated), dict(step.infos)
        env = self.game_env
        while env.to_act and all(seat in self._scripts for seat in env.to_act):
            step = self.move({seat: self._reply(seat) for seat in env.to_act})
            prompts |= step.observations
            for seat, reward in step.rewards.items():
                rewards[seat] = rewards.get(seat, 0.0) + reward
            terminated |= step.terminated
            truncated |= step.truncated
            infos |= step.infos
        at_once = {seat: self._reply(seat) for seat in env.to_act if seat in self._scripts}
        if at_once:
            # Held back, unseen, until the others have moved: nobody is told or paid anything yet.
            self.move(at_once)
        self.agents = [seat for seat in env.agents if seat not in self._scripts]
        over = {"__all__": not env.agents}
        told = {
            seat: text
            for seat, text in prompts.items()
            if seat in env.to_act or terminated.get(seat) or truncated.get(seat)
        }
        return (
            self._seen(told),
            self._seen(rewards),
            self._seen(terminated) | over,
            self._seen(truncated) | {"__all__": False},
            self._seen(infos),
        )

    def _seen(self, by_seat: dict[str, V]) -> dict[str, V]:
        return {seat: value for seat, value in by_seat.items() if seat not in self._scripts}

    def _reply(self, seat: str) -> str:
        thought = "script" if self.game_env.limits.think else None
        return format_reply([self._scripts[seat].action(self.game_env.game, seat)], thought)
