"""The contract that every text environment must keep, as a check: `check_text_env(make)`, or

python -m ragen_envs.certify sokoban
python -m ragen_envs.certify my_package.worlds:MyTask
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import cast

import gymnasium as gym
import numpy as np

from ragen_envs.contract import CertificationError, Clause, certify, check_clauses
from ragen_envs.contract import require as _require
from ragen_envs.open_names import load
from ragen_envs.registry import check_env_name, env_names, make_text_env
from ragen_envs.reply import format_reply
from ragen_envs.splits import Split
from ragen_envs.task import TextTask
from ragen_envs.text import TextEnv
from ragen_envs.tree import Tree

Make = Callable[[], TextEnv]
_WORD = re.compile(r"\d+|[^\W\d_]+")
Step = tuple[str, float, bool, bool, Tree]

JUNK_REPLIES: tuple[str, ...] = (
    "",
    " \n\t",
    "\0",
    "x" * 100_000,
    "<answer>" * 2_000,
    "<think><think></think></think><answer></answer>",
    "<think></think><answer></answer>",
    "<think></think><answer>||||||</answer>",
    "<think></think><answer>" + "|| " * 20_000 + "</answer>",
    "<think></think><answer>" + "9" * 50_000 + "</answer>",
    "<think></think><answer>" + "(" * 190 + "</answer>",
    "<think></think><answer>__import__('os').getcwd()</answer>",
    "<think>\ud800</think><answer>\ud800 🧊 \u202e ﷽ ٣</answer>",
    "<answer>no thought</answer> and more",
    "</answer></think><answer><think>",
)
"""Replies that are not an action in any environment."""


def check_text_env(make: Make, instances: int = 20) -> list[str]:
    """Checks all clauses on fresh environments from `make`.

    Args:
        make: makes the text environment.
        instances: number of seeds of each split that are checked.

    Returns:
        The clauses that were checked.

    Raises:
        CertificationError: the first broken clause, how it is broken, and a hint. An exception that the environment
            itself raises counts as broken, is told with its type and line, and is the cause of the error.
    """
    return check_clauses(CLAUSES, make, instances)


def _can_be_made(make: Make, instances: int) -> None:
    env = make()
    _require(isinstance(env, TextEnv), f"what is made is a {type(env).__name__}, not a TextEnv")
    env.reset(seed=0)
    _require(isinstance(env.task.instance_key, str), f"instance_key must be a str, got {env.task.instance_key!r}")


def _same_seed_same_instance(make: Make, instances: int) -> None:
    used, fresh = make(), make()
    first = [_begin(used, seed) for seed in range(instances)]
    for seed in reversed(range(instances)):
        used.reset(seed=seed + 1)
        _play_randomly(used, np.random.default_rng(seed))
        for env, where in ((used, "after other episodes"), (fresh, "in a second environment")):
            prompt, key = _begin(env, seed)
            _require(prompt == first[seed][0], f"seed {seed} gives another prompt {where}")
            _require(key == first[seed][1], f"seed {seed} gives another instance_key {where}")
    # What is hidden is not in the prompt: the instances then differ by their keys alone.
    _require(len(set(first)) > 1, f"seeds 0…{instances - 1} all give the same prompt and the same instance_key")


def _begin(env: TextEnv, seed: int) -> tuple[str, str]:
    """Starts an episode → (first prompt, instance key)."""
    prompt, _ = env.reset(seed=seed)
    return prompt, env.task.instance_key


def _group_shares_instance(make: Make, instances: int) -> None:
    env = make()
    for seed in range(instances):
        begun = []
        for outcome in range(4):
            prompt, _ = env.reset(seed=seed, options={"outcome_seed": outcome})
            begun.append((prompt, env.task.instance_key))
        _require(len({prompt for prompt, _ in begun}) == 1, f"with seed {seed}, the prompt depends on outcome_seed")
        _require(len({key for _, key in begun}) == 1, f"with seed {seed}, the instance_key depends on outcome_seed")


def _same_seeds_same_episode(make: Make, instances: int) -> None:
    one, two = make(), make()
    for seed in range(instances):
        episodes = []
        for env in (one, two):
            env.reset(seed=seed, options={"outcome_seed": seed + 7})
            episodes.append(_play_randomly(env, np.random.default_rng(seed)))
        _require(episodes[0] == episodes[1], f"seed {seed} and the same replies give two different episodes")


def _splits_are_disjoint(make: Make, instances: int) -> None:
    env = make()
    keys: dict[Split, set[str]] = {}
    for split in Split:
        drawn = set()
        for seed in range(instances):
            env.reset(seed=seed, options={"split": split.value})
            drawn.add(env.task.instance_key)
        keys[split] = drawn
    for one, other in ((Split.TRAIN, Split.VAL), (Split.TRAIN, Split.TEST), (Split.VAL, Split.TEST)):
        both = keys[one] & keys[other]
        _require(not both, f"{one} and {other} share {len(both)} instance(s), such as {min(both, default='')!r}")


def _steps_are_five_tuples(make: Make, instances: int) -> None:
    env = make()
    for seed in range(instances):
        prompt, info = env.reset(seed=seed)
        _require(isinstance(prompt, str) and isinstance(info, dict), "reset() must return (str, dict)")
        _require(prompt in env.observation_space, "the prompt is not in observation_space")
        for observation, reward, terminated, truncated, info in _play_randomly(env, np.random.default_rng(seed)):
            _require(isinstance(observation, str), "the observation must be a str")
            _require(observation in env.observation_space, "the observation is not in observation_space")
            _require(type(reward) is float and math.isfinite(reward), f"reward must be a finite float, got {reward!r}")
            _require(type(terminated) is bool and type(truncated) is bool, "terminated and truncated must be bool")
            _require(not (terminated and truncated), "an episode cannot both terminate and be truncated")
            for key in ("success", "valid", "actions", "dropped", "stop_reason", "state"):
                _require(key in info, f"info lacks {key!r}")


def _caps_hold(make: Make, instances: int) -> None:
    env = make()
    limits = env.limits
    for seed in range(instances):
        env.reset(seed=seed)
        steps = _play_randomly(env, np.random.default_rng(seed))
        run = [len(info["actions"]) for *_, info in steps]
        _require(len(steps) <= limits.max_turns, f"{len(steps)} turns, the cap is {limits.max_turns}")
        _require(max(run) <= limits.max_actions_per_turn, f"{max(run)} actions in one turn")
        _require(sum(run) <= limits.max_actions, f"{sum(run)} actions, the cap is {limits.max_actions}")
        _, _, terminated, truncated, info = steps[-1]
        by_turns, by_actions = len(steps) == limits.max_turns, sum(run) == limits.max_actions
        _require(terminated or (truncated and (by_turns or by_actions)), "the episode was cut off before any cap")
        expected = ("goal", "failed") if terminated else ("max_turns", "max_actions")
        _require(info["stop_reason"] in expected, f"stop_reason is {info['stop_reason']!r}, expected one of {expected}")


def _turn_cap_is_reached(make: Make, instances: int) -> None:
    env = make()
    env.reset(seed=0)
    for turn in range(1, env.limits.max_turns + 1):
        _, _, terminated, truncated, info = env.step("")
        last = turn == env.limits.max_turns
        _require(
            not terminated and truncated == last, f"turn {turn} of {env.limits.max_turns} invalid turns ended wrong"
        )
    _require(info["stop_reason"] == "max_turns", f"stop_reason is {info['stop_reason']!r} after too many turns")


def _penalty_is_exact(make: Make, instances: int) -> None:
    env, twin = make(), make()
    rng = np.random.default_rng(0)
    for seed in range(instances):
        env.reset(seed=seed)
        twin.reset(seed=seed)
        if env.limits.max_turns > 1:
            before = env.task.describe()
            _, reward, *_, info = env.step("no tags at all")
            _require(not info["valid"] and info["actions"] == [], "a reply without tags counts as valid")
            _require(reward == env.limits.format_penalty, f"an invalid turn gives {reward}, not the format penalty")
            _require(env.task.describe() == before, "an invalid turn changes the state")
        action = env.task.random_action(rng)
        _, reward, *_, info = env.step(_reply(env, [action]))
        _, expected, *_ = twin.task.step(twin.task.parse_action(action))
        _require(bool(info["valid"]), f"the legal action {action!r} counts as invalid")
        _require(reward == float(expected), f"a valid turn gives {reward}, its action {expected}")


def _junk_never_raises(make: Make, instances: int) -> None:
    env = make()
    for junk in JUNK_REPLIES:
        env.reset(seed=0)
        _, reward, *_, info = env.step(junk)
        _require(math.isfinite(reward), f"the reward of {junk[:40]!r} is {reward}")
        # Where any text is an action, a well-formed reply may be one.
        free_text = bool(info["well_formed"]) and not env.task.legal_actions()
        _require(free_text or not info["valid"], f"{junk[:40]!r} counts as an action")
        _require(not info["success"], f"{junk[:40]!r} reaches the goal")
        _require(reward <= 0, f"{junk[:40]!r} is paid {reward}")


def _ends_once(make: Make, instances: int) -> None:
    env = make()
    env.reset(seed=0)
    _play_randomly(env, np.random.default_rng(0))
    with suppress(gym.error.ResetNeeded):
        env.step("")
        raise CertificationError("step() after the end must raise gymnasium.error.ResetNeeded")
    env.reset(seed=0)
    env.step("")


def _close_twice(make: Make, instances: int) -> None:
    env = make()
    env.reset(seed=0)
    env.close()
    env.close()


def _actions_are_told(make: Make, instances: int) -> None:
    env = make()
    for seed in range(instances):
        env.reset(seed=seed)
        told = f"{env.task.rules()}\n{env.task.describe()}"
        for action in env.task.legal_actions():
            _require(
                env.task.actions_in_words or action in told or _is_spelled_out(action, told),
                f"the legal action {action!r} is named neither in the rules nor in the state",
            )
            for form in (action, action.lower(), action.upper(), f" {action} "):
                _require(env.task.parse_action(form) is not None, f"the legal action {form!r} is not understood")


def _is_spelled_out(action: str, told: str) -> bool:
    """Says whether `told` has every word of an action, and for its numbers at least one number: "guess 37" is told by
    "Guess a number from 1 to 100".
    """
    known = set(_WORD.findall(told.lower()))
    has_number = any(word.isdecimal() for word in known)
    words = _WORD.findall(action.lower())
    return bool(words) and all(has_number if word.isdecimal() else word in known for word in words)


def _goal_is_in_reach(make: Make, instances: int) -> None:
    env = make()
    try:
        env.reset(seed=0)
        env.task.solve()
    except NotImplementedError:
        return
    for seed in range(instances):
        env.reset(seed=seed)
        if _follows_solver(env):
            return
    raise CertificationError(f"the solver reaches the goal on none of {instances} instances under the caps")


def _follows_solver(env: TextEnv) -> bool:
    """Plays an episode by the solver's plan, computed anew each turn → whether it succeeded."""
    while True:
        plan = env.task.solve()
        if not plan:
            return False
        size = min(env.limits.max_actions_per_turn, env.actions_left)
        _, _, terminated, truncated, info = env.step(_reply(env, plan[:size]))
        if terminated or truncated:
            _require(info["success"] == (info["stop_reason"] == "goal"), "success and stop_reason disagree")
            return bool(info["success"])


def _nothing_is_not_paid(make: Make, instances: int) -> None:
    env, rng = make(), np.random.default_rng(0)
    for seed in range(instances):
        env.reset(seed=seed)
        terminated = False
        for _ in range(env.limits.max_actions):
            if terminated:
                break
            before, action = env.task.describe(), env.task.random_action(rng)
            for _ in range(2):  # a second time, what is done is done already
                _, reward, terminated, _, _ = env.task.step(env.task.parse_action(action))
                if terminated:
                    break
                after = env.task.describe()
                _require(after != before or float(reward) <= 0, f"{action!r} changes nothing and is paid {reward}")
                before = after
                if env.task.parse_action(action) is None:
                    break


def _answer_is_not_told(make: Make, instances: int) -> None:
    env = make()
    begun: list[tuple[list[str], set[str]]] = []
    for seed in range(instances):
        prompt, _ = env.reset(seed=seed)
        try:
            plan = env.task.solve()
        except NotImplementedError:
            return
        listed = {action.lower() for action in env.task.legal_actions()}
        answers = [action.lower() for action in plan or () if action.lower() not in listed]
        begun.append((answers, set(f"{env.system_prompt}\n{prompt}".lower().splitlines())))
    # A line that all instances share tells nothing of this one: a hidden 5 is not told by "5 turns".
    shared = set.intersection(*(lines for _, lines in begun))
    for answers, lines in begun:
        for answer in answers:
            told = any(re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", line) for line in lines - shared)
            _require(not told, f"the first prompt holds the answer {answer!r}")


CLAUSES: dict[str, Clause[Make]] = {
    "it can be made and reset": Clause(
        _can_be_made,
        "all parameters of the constructor need defaults; reset(seed=…, options=…) reads its options with read_options,"
        " and describe(), success and instance_key work from then on",
    ),
    "steps are Gymnasium's 5-tuples": Clause(
        _steps_are_five_tuples,
        "step() returns (text, reward, terminated, truncated, info): a finite number, terminated=True where the task is"
        " over, truncated=False (the caps are TextLimits'), and a dict",
    ),
    "the same seed gives the same instance": Clause(
        _same_seed_same_instance,
        "reset() draws all that an instance is from its seed, as draw_instance(seed, split, generate, key) does, sets"
        " every attribute anew, and takes nothing from clocks or global random state; what is hidden from the prompt"
        " is in instance_key",
    ),
    "a group shares its first prompt": Clause(
        _group_shares_instance,
        "outcome_seed seeds only the chance inside an episode: neither describe() after reset() nor instance_key may"
        " depend on it",
    ),
    "the same seeds and replies give the same episode": Clause(
        _same_seeds_same_episode,
        "what step() draws comes from a generator that reset() seeds with chance_seed(outcome_seed)",
    ),
    "splits are disjoint": Clause(
        _splits_are_disjoint,
        "draw_instance(seed, split, generate, key) with the split of read_options; key is instance_key's text, and"
        " says all that the instance is",
    ),
    "caps hold": Clause(
        _caps_hold,
        "caps are TextEnv's: a task says terminated=True where it is over, with success=True if the goal is reached",
    ),
    "the turn cap is reached": Clause(
        _turn_cap_is_reached, "turns without a valid action must not end the episode before the last"
    ),
    "the format penalty is exact": Clause(
        _penalty_is_exact,
        "parse_action() understands whatever random_action() returns (a task of free text overrides it), step() pays"
        " the same for the same action, and only step() changes the state",
    ),
    "junk never raises and is never paid": Clause(
        _junk_never_raises,
        "parse_action() returns None for what is no action, however long or odd (int() and [] raise), and step() pays"
        " nothing for nonsense",
    ),
    "an episode ends once": Clause(_ends_once, "use TextEnv, which asks for reset() after the end"),
    "close() can be called twice": Clause(_close_twice, "close() does nothing where all is closed already"),
    "legal actions are told and understood": Clause(
        _actions_are_told,
        "name every action in rules() or describe(); where the rules tell them in words (“any letter”), set"
        " actions_in_words = True in the class; parse_action() reads small and capital letters and spaces around",
    ),
    "the goal is in reach of the solver": Clause(
        _goal_is_in_reach,
        "solve() returns the actions from the present state to the goal; the caps (default_limits) must leave room for"
        " them; step() returns terminated=True where success is",
    ),
    "an action that changes nothing is not paid": Clause(
        _nothing_is_not_paid, "pay for what is reached, once: a reward without a change can be had again and again"
    ),
    "the first prompt does not hold the answer": Clause(
        _answer_is_not_told, "describe() must not tell what the model is to find out"
    ),
}


def _reply(env: TextEnv, actions: list[str]) -> str:
    return format_reply(actions, "thought" if env.limits.think else None)


def _play_randomly(env: TextEnv, rng: np.random.Generator) -> list[Step]:
    """Plays an episode with full-size turns of random legal actions, more than the cap allows."""
    steps: list[Step] = []
    while not steps or not (steps[-1][2] or steps[-1][3]):
        actions = [env.task.random_action(rng) for _ in range(env.limits.max_actions_per_turn + 1)]
        steps.append(env.step(_reply(env, actions)))
        _require(len(steps) <= env.limits.max_turns, f"more than {env.limits.max_turns} turns: the turn cap fails")
    return steps


def _make_from(name: str) -> Make:
    """Returns the maker of TextEnvs that `name` means: `sokoban`, `module:Task`, or a `module:function`."""
    found = load(name) if ":" in name else None
    if found is None or (isinstance(found, type) and issubclass(found, TextTask)):
        return partial(make_text_env, check_env_name(name))
    if not callable(found):
        raise ValueError(f"{name!r} is neither a TextTask class nor a function that makes a TextEnv")
    return cast(Make, found)


def main(arguments: Sequence[str] | None = None) -> int:
    """Checks one environment and prints the clauses → exit code: 0 kept, 1 broken, 2 no such environment."""
    parser = argparse.ArgumentParser(
        prog="python -m ragen_envs.certify",
        description="Checks the contract of an environment for one agent, clause by clause.",
    )
    parser.add_argument(
        "name",
        metavar="NAME",
        help=f"{', '.join(env_names())}, an import path module:Task, or a module:function that makes a TextEnv",
    )
    parser.add_argument("--instances", type=int, default=20, metavar="N", help="seeds of each split, ≥ 2 [20]")
    return certify(parser, arguments, _make_from, check_text_env)


if __name__ == "__main__":
    sys.exit(main())
