"""The contract that every text game must keep, as a check: `check_text_game(make)`, or

python -m ragen_envs.games.certify kuhn_poker
python -m ragen_envs.games.certify my_package.my_game:make
"""

from __future__ import annotations

import argparse
import copy
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import cast, get_args

import gymnasium as gym
import numpy as np

from ragen_envs.certify import JUNK_REPLIES
from ragen_envs.contract import CertificationError, Clause, certify, check_clauses
from ragen_envs.contract import require as _require
from ragen_envs.games.env import GameStep, TextGameEnv
from ragen_envs.games.game import Outcome, TextGame
from ragen_envs.games.limits import IllegalMove
from ragen_envs.games.registry import game_names, game_settings, make_text_game
from ragen_envs.open_names import load
from ragen_envs.reply import format_reply
from ragen_envs.splits import Split

Make = Callable[[], TextGameEnv]
INFO_KEYS = ("success", "outcome", "valid", "well_formed", "actions", "thought", "stop_reason", "state")
_MAX_STEPS = 10_000
"""Moves after which a game counts as endless: chosen freely, far above the longest shipped game (chess, max_moves)."""


def check_text_game(make: Make, instances: int = 20) -> list[str]:
    """Checks all clauses on fresh environments from `make`.

    Args:
        make: makes the text game.
        instances: number of seeds that are checked.

    Returns:
        The clauses that were checked.

    Raises:
        CertificationError: the first broken clause, how it is broken, and a hint. An exception that the game itself
            raises counts as broken, is told with its type and line, and is the cause of the error.
    """
    return check_clauses(CLAUSES, make, instances)


def random_replies(env: TextGameEnv, rng: np.random.Generator) -> dict[str, str]:
    """Returns a legal reply of every seat that is to act, uniformly at random."""
    replies = {}
    for seat in env.to_act:
        legal = env.game.legal_actions(seat)
        replies[seat] = reply_with(env, legal[int(rng.integers(len(legal)))])
    return replies


def reply_with(env: TextGameEnv, action: str) -> str:
    """Returns a well-formed reply that names `action`."""
    return format_reply([action], "thought" if env.limits.think else None)


def play_randomly(env: TextGameEnv, rng: np.random.Generator, one_by_one: bool = False) -> list[GameStep]:
    """Plays on to the end with legal replies; `one_by_one` steps each seat by itself."""
    steps: list[GameStep] = []
    while env.agents:
        replies = random_replies(env, rng)
        parts = [{seat: text} for seat, text in replies.items()] if one_by_one else [replies]
        steps += [env.step(part) for part in parts]
        _require(len(steps) < _MAX_STEPS, f"the game does not end within {_MAX_STEPS} steps")
    return steps


def _steps_are_well_formed(make: Make, instances: int) -> None:
    env = make()
    for seed in range(instances):
        prompts, infos = env.reset(seed=seed)
        _require(set(prompts) == set(env.to_act) and bool(prompts), "reset() must prompt exactly the seats to act")
        _require(set(infos) == set(env.possible_agents), "reset() must give every seat an info")
        rng, alive = np.random.default_rng(seed), set(env.possible_agents)
        while env.agents:
            step = env.step(random_replies(env, rng))
            _check_step(env, step, alive)
            alive -= {seat for seat in alive if step.terminated[seat] or step.truncated[seat]}
            _require(alive == set(env.agents), f"agents are {env.agents}, in the game are {sorted(alive)}")
            _require(set(env.to_act) <= alive, "a seat that has ended is to act")
            _require(bool(env.to_act) == bool(alive), "the game is not over, yet nobody is to act")


def _check_step(env: TextGameEnv, step: GameStep, alive: set[str]) -> None:
    parts: dict[str, Iterable[str]] = {
        "rewards": step.rewards,
        "terminated": step.terminated,
        "truncated": step.truncated,
        "infos": step.infos,
    }
    for name, part in parts.items():
        _require(set(part) == alive, f"{name} are told to {sorted(part)}, in the game were {sorted(alive)}")
    for seat in alive:
        reward = step.rewards[seat]
        _require(type(reward) is float and math.isfinite(reward), f"a reward must be a finite float, got {reward!r}")
        _require(not (step.terminated[seat] and step.truncated[seat]), "a seat both terminates and is cut off")
        _require(set(INFO_KEYS) <= set(step.infos[seat]), f"info lacks one of {', '.join(INFO_KEYS)}")
    for seat, text in step.observations.items():
        _require(text in env.observation_space(seat), "an observation is not in observation_space")


def _same_seeds_same_game(make: Make, instances: int) -> None:
    used, fresh = make(), make()
    for seed in range(instances):
        used.reset(seed=seed + 1)
        play_randomly(used, np.random.default_rng(seed))
        games = []
        for env in (used, fresh):
            start = env.reset(seed=seed, options={"outcome_seed": seed + 7})
            games.append((start, play_randomly(env, np.random.default_rng(seed))))
        _require(games[0] == games[1], f"seed {seed} and the same replies give two different games")


def _group_shares_prompt(make: Make, instances: int) -> None:
    env = make()
    for seed in range(instances):
        prompts = [env.reset(seed=seed, options={"outcome_seed": outcome})[0] for outcome in range(4)]
        _require(all(prompt == prompts[0] for prompt in prompts), f"seed {seed}: the prompt depends on outcome_seed")


def _splits_hold(make: Make, instances: int) -> None:
    env = make()
    keys: dict[Split, list[str]] = {split: [] for split in Split}
    for split in Split:
        for seed in range(instances):
            env.reset(seed=seed, options={"split": split.value})
            keys[split].append(env.game.instance_key)
    if not env.game.has_splits:
        same = all(keys[split] == keys[Split.TRAIN] for split in Split)
        _require(same, "has_splits is False, but the split changes the instances")
        return
    for one, other in ((Split.TRAIN, Split.VAL), (Split.TRAIN, Split.TEST), (Split.VAL, Split.TEST)):
        both = set(keys[one]) & set(keys[other])
        _require(not both, f"{one} and {other} share {len(both)} instance(s), such as {min(both, default='')!r}")


def _moves_at_once_are_unseen(make: Make, instances: int) -> None:
    """Checks that the others see no difference between the first seat's moves until all have moved."""
    env = make()
    for seed in range(instances):
        env.reset(seed=seed)
        rng = np.random.default_rng(seed)
        while env.agents:
            first, *others = env.to_act
            before = [(env.observe(seat), env.info(seat)) for seat in others]
            for action in env.game.legal_actions(first) if others else []:
                twin = copy.deepcopy(env)
                step = twin.step({first: reply_with(twin, action)})
                _require(not any(step.rewards.values()), f"{first} is paid before the others have moved")
                after = [(twin.observe(seat), twin.info(seat)) for seat in others]
                _require(after == before, f"the others are told that {first} has played {action!r}")
            env.step(random_replies(env, rng))


def _order_of_replies_is_the_same(make: Make, instances: int) -> None:
    one, other = make(), make()
    for seed in range(instances):
        ends = []
        for env, one_by_one in ((one, False), (other, True)):
            env.reset(seed=seed)
            steps = play_randomly(env, np.random.default_rng(seed), one_by_one)
            totals = {seat: sum(step.rewards.get(seat, 0.0) for step in steps) for seat in env.possible_agents}
            ends.append((totals, {seat: env.info(seat) for seat in env.possible_agents}))
        _require(ends[0] == ends[1], f"seed {seed}: replies one by one give another game than all at once")


def _secrets_are_kept(make: Make, instances: int) -> None:
    env = make()
    for seed in range(instances):
        env.reset(seed=seed)
        rng = np.random.default_rng(seed)
        while env.agents:
            for seat in env.agents:
                others = {word for other in env.agents if other != seat for word in env.game.secrets(other)}
                seen = env.game.describe_for(seat) if seat in env.to_act else ""
                told = f"{env.observe(seat)}\n{env.info(seat)}\n{seen}"
                for word in others - set(env.game.secrets(seat)):
                    _require(word not in told, f"{seat} is told {word!r}, which is another seat's secret")
            env.step(random_replies(env, rng))


def _actions_are_told(make: Make, instances: int) -> None:
    env = make()
    for seed in range(instances):
        prompts, _ = env.reset(seed=seed)
        rng = np.random.default_rng(seed)
        while env.agents:
            for seat in env.to_act:
                legal = env.game.legal_actions(seat)
                _require(len(legal) > 0, f"{seat} is to move and has no legal action")
                told = f"{env.game.rules()}\n{prompts[seat]}"
                for action in legal:
                    _require(action in told, f"the legal action {action!r} is named neither in rules nor in prompt")
                    for form in (action, action.lower(), action.upper(), f" {action} "):
                        found = env.game.parse_action(seat, form)
                        _require(
                            found == action, f"the legal action {action!r}, told as {form!r}, is read as {found!r}"
                        )
            prompts = env.step(random_replies(env, rng)).observations


def _illegal_moves_cost(make: Make, instances: int) -> None:
    for rule in get_args(IllegalMove):
        limits = replace(make().limits, illegal_move=rule, illegal_reward=-0.5, max_turns=None)
        env = TextGameEnv(make().game, limits)
        for seed in range(instances):
            env.reset(seed=seed)
            seat, before = env.to_act[0], env.game.observe(env.to_act[0])
            step = env.step({seat: "no tags at all"})
            _require(not step.infos[seat]["valid"], "a reply without tags counts as valid")
            if rule == "retry" and limits.max_retries:
                _require(step.rewards[seat] == -0.5, f"retry: an illegal move gives {step.rewards[seat]}, not -0.5")
                _require(seat in env.to_act and env.game.observe(seat) == before, "retry: the game has gone on")
            if rule == "penalty":
                _require(len(step.infos[seat]["actions"]) == 1, "penalty: no move was made for the seat")
            if rule == "forfeit":
                while seat in env.agents and env.to_act:
                    env.step(random_replies(env, np.random.default_rng(seed)))
                info = env.info(seat)
                _require(info["stop_reason"] == "forfeit", f"forfeit: stop_reason is {info['stop_reason']!r}")
                _require(info["outcome"] == "loss" and not info["success"], "forfeit: the seat has not lost")


def _junk_never_raises(make: Make, instances: int) -> None:
    for rule in get_args(IllegalMove):
        env = TextGameEnv(make().game, replace(make().limits, illegal_move=rule))
        for junk in JUNK_REPLIES:
            env.reset(seed=0)
            seat = env.to_act[0]
            step = env.step({seat: junk})
            _require(not step.infos[seat]["valid"], f"{junk[:40]!r} counts as a legal move")
            for _ in range(_MAX_STEPS):
                if not env.agents:
                    break
                env.step(dict.fromkeys(env.to_act, junk))
            _require(not env.agents, f"a game of nothing but {junk[:40]!r} does not end under {rule!r}")


def _forfeit_never_pays(make: Make, instances: int) -> None:
    """Checks that a seat that forfeits gets no more than the worst result of legal play."""
    env = TextGameEnv(make().game, replace(make().limits, illegal_move="forfeit", max_turns=None))
    worst = math.inf
    for seed in range(instances):
        env.reset(seed=seed)
        steps = play_randomly(env, np.random.default_rng(seed))
        worst = min(worst, *(sum(step.rewards.get(s, 0.0) for step in steps) for s in env.possible_agents))
    for seed in range(instances):
        env.reset(seed=seed)
        seat = env.to_act[0]
        paid = env.step({seat: ""}).rewards[seat]
        while seat in env.agents and env.to_act:
            paid += env.step(random_replies(env, np.random.default_rng(seed))).rewards[seat]
        _require(paid <= worst, f"a seat that forfeits at once gets {paid}, legal play as little as {worst}")


def _results_agree(make: Make, instances: int) -> None:
    env = make()
    for seed in range(instances):
        env.reset(seed=seed)
        steps = play_randomly(env, np.random.default_rng(seed))
        if env.game.zero_sum:
            total = sum(reward for step in steps for reward in step.rewards.values())
            _require(abs(total) < 1e-9, f"the rewards of legal play add up to {total}, zero_sum says 0")
        for seat in env.possible_agents:
            info = env.info(seat)
            if info["stop_reason"] == "max_turns":
                continue
            _require(info["outcome"] in list(Outcome), f"{seat} has ended with outcome {info['outcome']!r}")
            _require(info["success"] == (info["stop_reason"] == "goal"), "success and stop_reason disagree")


def _ends_once(make: Make, instances: int) -> None:
    env = make()
    env.reset(seed=0)
    waiting = [seat for seat in env.possible_agents if seat not in env.to_act]
    for replies in [{}, {"nobody": ""}, *({seat: ""} for seat in waiting)]:
        with suppress(ValueError):
            env.step(replies)
            raise CertificationError(f"replies of {list(replies)} must raise ValueError, to act: {env.to_act}")
    play_randomly(env, np.random.default_rng(0))
    _require(env.to_act == (), "seats are to act after the end")
    with suppress(gym.error.ResetNeeded):
        env.step({env.possible_agents[0]: ""})
        raise CertificationError("step() after the end must raise gymnasium.error.ResetNeeded")
    env.reset(seed=0)
    _require(bool(env.to_act), "nobody is to act after reset()")


CLAUSES: dict[str, Clause[Make]] = {
    "steps are well-formed, for exactly the seats in the game": Clause(
        _steps_are_well_formed,
        "to_move names the seats that are to move, and none once the game is over; _play() gives every seat a number",
    ),
    "the same seeds and replies give the same game": Clause(
        _same_seeds_same_game,
        "reset() draws the instance from its seed and the luck from outcome_seed, sets every attribute anew, and takes"
        " nothing from clocks or global random state",
    ),
    "a group shares its first prompts": Clause(
        _group_shares_prompt, "outcome_seed seeds only the chance after the first moves: no first prompt depends on it"
    ),
    "splits are disjoint, or there are none": Clause(
        _splits_hold,
        "draw_instance(seed, split, generate, key) with instance_key's text; a game with too few starts to split says"
        " has_splits = False",
    ),
    "moves made at once are unseen": Clause(
        _moves_at_once_are_unseen, "TextGameEnv keeps moves until all seats have moved; observe() tells none of them"
    ),
    "replies one by one and all at once give the same game": Clause(
        _order_of_replies_is_the_same, "_play() must not depend on the order in which the moves are given"
    ),
    "secrets are kept": Clause(_secrets_are_kept, "observe() and describe_for() tell a seat only what it may see"),
    "legal actions are told and understood": Clause(
        _actions_are_told,
        "name every action in rules() or leave list_actions on; parse_action() reads small and capital letters and"
        " spaces around, and returns the action as legal_actions() writes it",
    ),
    "illegal moves cost what the rule says": Clause(
        _illegal_moves_cost,
        "parse_action() returns None for an illegal move and changes nothing; _forfeit() ends the game of a seat",
    ),
    "junk never raises and games of junk end": Clause(
        _junk_never_raises, "parse_action() returns None for what is no move, however long or odd (int() and [] raise)"
    ),
    "a forfeit never pays": Clause(_forfeit_never_pays, "who forfeits gets no more than the worst that play can give"),
    "results agree": Clause(
        _results_agree, "outcome() says win, draw or loss of every seat; zero_sum = True only where rewards add up to 0"
    ),
    "a game ends once": Clause(_ends_once, "to_move is empty once the game is over, and not before reset() anew"),
}


def _make_from(name: str) -> Make:
    """Returns the maker of TextGameEnvs that `name` means: `kuhn_poker`, `module:Game`, or a `module:function`."""
    found = load(name) if ":" in name else None
    if found is None or (isinstance(found, type) and issubclass(found, TextGame)):
        game_settings(name)
        return partial(make_text_game, name)
    if not callable(found):
        raise ValueError(f"{name!r} is neither a TextGame class nor a function that makes a TextGameEnv")
    return cast(Make, found)


def main(arguments: Sequence[str] | None = None) -> int:
    """Checks one game and prints the clauses → exit code: 0 kept, 1 broken, 2 no such game."""
    parser = argparse.ArgumentParser(
        prog="python -m ragen_envs.games.certify",
        description="Checks the contract of a game for several seats, clause by clause.",
    )
    parser.add_argument(
        "name",
        metavar="NAME",
        help=f"{', '.join(game_names())}, an import path module:Game, or a module:function that makes a TextGameEnv",
    )
    parser.add_argument("--instances", type=int, default=20, metavar="N", help="seeds that are checked, ≥ 2 [20]")
    return certify(parser, arguments, _make_from, check_text_game)


if __name__ == "__main__":
    sys.exit(main())
