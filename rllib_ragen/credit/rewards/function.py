"""What a reward function is, and how a config's entry becomes one that the run can call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Protocol, cast, get_args, runtime_checkable

from ragen_envs.tree import Tree
from rllib_ragen.config.environments import worlds
from rllib_ragen.config.errors import nearest
from rllib_ragen.config.reward_section import RewardSection
from rllib_ragen.config.schema import RunConfig

Given = Literal["turn", "trajectory", "trajectories"]
"""Name of a reward function's first parameter, and what it is given for it: one Turn, one Trajectory, or the list of
all of a batch."""
Reward = Callable[..., Any]
"""A function, or a class whose instances are called; sync or async. It returns a number, of a trajectory also a number
for each turn, and of trajectories a list of such answers in their order."""
Call = Callable[[object], object]
"""A reward with its settings."""
_ANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@runtime_checkable
class Remembers(Protocol):
    """A reward that goes on, in a resumed run, with what it knew; both in plain JSON."""

    def state(self) -> Tree:
        """Returns what a checkpoint needs."""

    def restore(self, state: Tree) -> None:
        """Takes what `state` gave."""


@dataclass(frozen=True)
class RewardFunction:
    """A reward with its settings, ready to be called with one argument."""

    name: str
    """The config's name of it, for messages."""
    label: str
    """Its name in logs."""
    weight: float
    timeout_s: float
    given: Given
    call: Call
    is_async: bool
    of_envs: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    """What is called for trajectories of each of several environments in place of `call`, by label."""

    @property
    def holder(self) -> object:
        """The instance that a class made, else the function; what may have `state` and `restore`."""
        return self.call.func if isinstance(self.call, partial) else self.call


def check_reward(thing: object) -> Reward:
    """Returns `thing`, if it is a reward.

    Raises:
        ValueError: it is not; a sentence.
    """
    wanted = f"must be a function whose first parameter is called {' or '.join(get_args(Given))}"
    if not callable(thing):
        raise ValueError(f"{wanted}, not {thing!r}")
    called: Reward = thing.__call__ if isinstance(thing, type) else thing
    try:
        names = list(inspect.signature(called).parameters)[isinstance(thing, type) :]
    except (TypeError, ValueError) as error:
        raise ValueError(f"{wanted}: {error}") from None
    if not names or names[0] not in get_args(Given):
        told = f"({', '.join(names)})"
        raise ValueError(f"{wanted}, or a class whose instances are called so; {_name_of(thing)} takes {told}")
    return cast(Reward, thing)


def bind(reward: Reward, section: RewardSection, run: RunConfig) -> RewardFunction:
    """Returns the reward with the settings that the config tells it.

    Parameters called `run` and `timeout_s` are given the run's config and the entry's own key. Of several environments
    a function is given the config of a run of that one alone, from which a trajectory comes.

    Raises:
        ValueError: a setting that it does not take, one that it lacks, or whatever its constructor raises; a sentence.
    """
    of_class = isinstance(reward, type)
    parameters = dict(inspect.signature(reward).parameters)
    if not of_class:
        del parameters[next(iter(parameters))]
    given = _arguments(parameters, section, run)
    called: Call = _made(reward, given) if of_class else partial(reward, **given) if given else reward
    inner = called.func if isinstance(called, partial) else called
    first = next(iter(inspect.signature(inner).parameters))
    is_async = inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(getattr(inner, "__call__", None))  # noqa: B004
    of_envs: dict[str, Callable[[Any], Any]] = {}
    if run.envs and "run" in given and not of_class:
        of_envs = {world.label: partial(reward, **given | {"run": world.target}) for world in worlds(run)}
    return RewardFunction(
        section.name, section.shown_as, section.weight, section.timeout_s, cast(Given, first), called, is_async, of_envs
    )


def _arguments(parameters: Mapping[str, inspect.Parameter], section: RewardSection, run: RunConfig) -> Tree:
    own = {name: one for name, one in parameters.items() if name not in ("run", "timeout_s") and one.kind not in _ANY}
    takes_any = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())
    for key in section.settings:
        if key not in own and not takes_any:
            known = [*RewardSection.model_fields, *own]
            raise ValueError(f"{section.name}: unknown setting {key!r}; {nearest(key, known)}")
    lacking = [name for name, one in own.items() if one.default is one.empty and name not in section.settings]
    if lacking:
        raise ValueError(f"{section.name}: the setting {lacking[0]!r} must be given")
    told: Tree = {"run": run, "timeout_s": section.timeout_s}
    return {**section.settings, **{name: value for name, value in told.items() if name in parameters}}


def _made(reward: Reward, given: Tree) -> Call:
    try:
        return cast(Call, reward(**given))
    except Exception as error:
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        raise ValueError(f"{_name_of(reward)}: {kind}{' '.join(str(error).split())}") from error


def _name_of(thing: object) -> str:
    return str(getattr(thing, "__name__", thing))
