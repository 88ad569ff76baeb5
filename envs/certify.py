"""The contract that every text environment must keep, as a check: `check_text_env(make)`, or

python -m ragen_envs.certify sokoban
python -m ragen_envs.certify my_package.worlds:MyTask
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import cast

import gymnasium as gym
import numpy as np

from ragen_envs.open_names import load
from ragen_envs.registry import check_env_name, env_names, make_text_env
from ragen_envs.reply import format_reply
from ragen_envs.splits import Split
from ragen_envs.task import TextTask
from ragen_envs.text import TextEnv
from ragen_envs.tree import Tree

Make = Callable[[], TextEnv]
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


class CertificationError(AssertionError):
    """A clause of the contract is broken; the message names clause and finding."""


def check_text_env(make: Make, instances: int = 20) -> list[str]:
    """Checks all clauses on fresh environments from `make`.

    Args:
        make: makes the text environment.
        instances: number of seeds of each split that are checked.

    Returns:
        The clauses that were checked.

    Raises:
        CertificationError: the first broken clause, and how it is broken. An exception that the environment itself
            raises counts as broken, and is the cause of the error.
    """
    for name, check in CLAUSES.items():
        with _clause(name):
            check(make, instances)
    return list(CLAUSES)


@contextmanager
def _clause(name: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise CertificationError(f"clause {name!r} is broken: {error or type(error).__name__}") from error


def _require(holds: bool, finding: str) -> None:
    if not holds:
        raise CertificationError(finding)


def _same_seed_same_prompt(make: Make, instances: int) -> None:
    used, fresh = make(), make()
    first = [used.reset(seed=seed)[0] for seed in range(instances)]
    for seed in reversed(range(instances)):
        used.reset(seed=seed + 1)
        _play_randomly(used, np.random.default_rng(seed))
        again, other = used.reset(seed=seed)[0], fresh.reset(seed=seed)[0]
        _require(again == first[seed], f"seed {seed} gives another prompt after other episodes")
        _require(other == first[seed], f"seed {seed} gives another prompt in a second environment")
    _require(len(set(first)) > 1, f"seeds 0…{instances - 1} all give the same prompt")


def _group_shares_prompt(make: Make, instances: int) -> None:
    env = make()
    for seed in range(instances):
        prompts = {env.reset(seed=seed, options={"outcome_seed": outcome})[0] for outcome in range(4)}
        _require(len(prompts) == 1, f"with seed {seed}, the prompt depends on outcome_seed")


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
        _require(not info["valid"] and not info["success"], f"{junk[:40]!r} counts as an action")
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
            _require(action in told, f"the legal action {action!r} is named neither in the rules nor in the state")
            for form in (action, action.lower(), action.upper(), f" {action} "):
                _require(env.task.parse_action(form) is not None, f"the legal action {form!r} is not understood")


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
    for seed in range(instances):
        prompt, _ = env.reset(seed=seed)
        try:
            plan = env.task.solve()
        except NotImplementedError:
            return
        listed = {action.lower() for action in env.task.legal_actions()}
        told = f"{env.system_prompt}\n{prompt}".lower()
        for action in plan or ():
            free_text = action.lower() not in listed
            _require(not (free_text and action.lower() in told), f"the first prompt holds the answer {action!r}")


CLAUSES: dict[str, Callable[[Make, int], None]] = {
    "steps are Gymnasium's 5-tuples": _steps_are_five_tuples,
    "the same seed gives the same prompt": _same_seed_same_prompt,
    "a group shares its first prompt": _group_shares_prompt,
    "the same seeds and replies give the same episode": _same_seeds_same_episode,
    "splits are disjoint": _splits_are_disjoint,
    "caps hold": _caps_hold,
    "the turn cap is reached": _turn_cap_is_reached,
    "the format penalty is exact": _penalty_is_exact,
    "junk never raises and is never paid": _junk_never_raises,
    "an episode ends once": _ends_once,
    "close() can be called twice": _close_twice,
    "legal actions are told and understood": _actions_are_told,
    "the goal is in reach of the solver": _goal_is_in_reach,
    "an action that changes nothing is not paid": _nothing_is_not_paid,
    "the first prompt does not hold the answer": _answer_is_not_told,
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


def main(arguments: list[str]) -> int:
    """Checks one environment and prints the clauses → exit code."""
    if len(arguments) != 1:
        print(
            f"usage: python -m ragen_envs.certify NAME, with NAME one of {', '.join(env_names())}, a module:Task, or a"
            " module:function that makes a TextEnv"
        )
        return 2
    try:
        make = _make_from(arguments[0])
        for clause in check_text_env(make):
            print(f"ok  {clause}")
    except (CertificationError, ValueError) as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
