"""All rewards of a run: what a batch's trajectories are trained on, before any filter."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from ragen_envs.tree import Tree
from rllib_ragen.config.environments import label_of
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.credit.groups import env_labels
from rllib_ragen.credit.rewards.answers import number, per_turn
from rllib_ragen.credit.rewards.ask import Failed, ask
from rllib_ragen.credit.rewards.function import Remembers, RewardFunction
from rllib_ragen.credit.rewards.judge import Judge
from rllib_ragen.credit.rewards.registry import make_rewards
from rllib_ragen.faults.exit_codes import NothingPlayed
from rllib_ragen.types import StopReason, Trajectory


class Rewards:
    """Turn by turn, weight · the environment's reward + Σ weight · what each function gives.

    A trajectory on which a function fails is dropped (`reward_error`); the environment's own rewards stay on the turns
    (`raw_reward`), and what the functions gave on the trajectory (`rewards`).
    """

    def __init__(self, run: RunConfig, trained: Collection[str]) -> None:
        """
        Args:
            run: its `rewards`; a function's parameter `run` is given it.
            trained: ids of the policies that learn; what others played is nobody's to reward.

        Raises:
            ValueError: a reward that cannot be made; one sentence.
        """
        self._env_weight, self._functions = make_rewards(run)
        self._trained = frozenset(trained)
        self._envs = [label_of(entry) for entry in run.envs]
        self._judges = {one.label: one.holder for one in self._functions if isinstance(one.holder, Judge)}

    def __bool__(self) -> bool:
        """Says whether anything else than the environment's own reward is trained on, or logged."""
        return bool(self._functions) or self._env_weight != 1

    def __call__(self, trajectories: Sequence[Trajectory]) -> list[Trajectory]:
        """Returns the trajectories with what is trained on as their turns' rewards; copies, if that is not theirs.

        Raises:
            NothingPlayed: every trajectory is dropped; a sentence with the first one's reason.
        """
        rewarded = list(trajectories)
        chosen = [
            index
            for index, one in enumerate(trajectories)
            if self and not one.stop_reason.failed and one.turns and one.module_id in self._trained
        ]
        sums = {i: [self._env_weight * turn.reward for turn in trajectories[i].turns] for i in chosen}
        told: dict[int, dict[str, float]] = {index: {} for index in chosen}
        failed: dict[int, str] = {}
        for function in self._functions:
            asked = [index for index in chosen if index not in failed]
            for index, found in zip(asked, _by_env(function, [trajectories[i] for i in asked]), strict=True):
                try:
                    given = _numbers(found)
                    pairs = zip(sums[index], given, strict=True)
                    sums[index] = [number(had + function.weight * gained) for had, gained in pairs]
                except ValueError as error:
                    failed[index] = f"the reward {function.name} {error}"
                    continue
                told[index][function.label] = sum(given)
        if chosen and len(failed) == len(chosen):
            raise NothingPlayed(f"{failed[chosen[0]]}; no trajectory of the batch has all its rewards")
        for index in chosen:
            one = trajectories[index]
            if index in failed:
                rewarded[index] = replace(one, stop_reason=StopReason.REWARD_ERROR, error=failed[index])
            else:
                turns = [
                    replace(turn, reward=reward, raw_reward=turn.reward)
                    for turn, reward in zip(one.turns, sums[index], strict=True)
                ]
                rewarded[index] = replace(one, turns=turns, rewards=told[index])
        for judge in self._judges.values():
            judge.end_batch()
        return rewarded

    def metrics(self, trajectories: Sequence[Trajectory]) -> dict[str, float]:
        """Returns `reward_<label>`, means of what the functions gave; trained_return_mean; and what judges cost. The
        means of several environments also one by one, as `<environment>/…`.
        """
        if not self:
            return {}
        alive = [one for one in trajectories if not one.stop_reason.failed and one.module_id in self._trained]
        found = self._means(alive)
        for env in self._envs:
            own = self._means([trajectory for trajectory in alive if trajectory.env == env])
            found |= {f"{env}/{name}": value for name, value in own.items()}
        if self._judges:
            found["judge_calls_lifetime"] = float(sum(judge.calls for judge in self._judges.values()))
            found["judge_remembered_lifetime"] = float(sum(judge.remembered for judge in self._judges.values()))
        return found

    def _means(self, alive: Sequence[Trajectory]) -> dict[str, float]:
        found = {
            f"reward_{function.label}": _mean([t.rewards[function.label] for t in alive if function.label in t.rewards])
            for function in self._functions
        }
        return found | {"trained_return_mean": _mean([trajectory.episode_return for trajectory in alive])}

    @property
    def stop_reason(self) -> str:
        """Why no further batch can be rewarded; empty: one can."""
        return next((judge.stop_reason for judge in self._judges.values() if judge.stop_reason), "")

    def state(self) -> Tree:
        """Returns what rewards that have a `state()` remember, by label, for a checkpoint."""
        return {one.label: one.holder.state() for one in self._functions if isinstance(one.holder, Remembers)}

    def restore(self, state: Tree) -> None:
        """Takes what `state` gave; rewards that the run did not have then begin anew."""
        for function in self._functions:
            if function.label in state and isinstance(function.holder, Remembers):
                function.holder.restore(state[function.label])


def _by_env(function: RewardFunction, trajectories: Sequence[Trajectory]) -> list[list[float] | Failed]:
    """Returns `_answers`, of a function that is told the run's environment by those of each."""
    if not function.of_envs:
        return _answers(function, trajectories)
    found: dict[int, list[float] | Failed] = {}
    for env in env_labels(trajectories):
        mine = [index for index, one in enumerate(trajectories) if one.env == env]
        own = replace(function, call=function.of_envs[env])
        found |= zip(mine, _answers(own, [trajectories[index] for index in mine]), strict=True)
    return [found[index] for index in range(len(trajectories))]


def _answers(function: RewardFunction, trajectories: Sequence[Trajectory]) -> list[list[float] | Failed]:
    """Returns of each trajectory [turns] numbers, or why there are none."""
    if not trajectories:
        return []
    # Copies: what a function does to its argument must not reach what is trained on.
    copies = [replace(one, turns=[replace(turn) for turn in one.turns]) for one in trajectories]
    if function.given == "trajectories":
        (answer,) = ask(function, [copies])
        return _of_all(answer, trajectories)
    if function.given == "trajectory":
        answers = ask(function, copies)
        return [_checked(answer, len(one.turns)) for answer, one in zip(answers, trajectories, strict=True)]
    in_order = iter(ask(function, [turn for one in copies for turn in one.turns]))
    return [_of_turns([next(in_order) for _ in one.turns]) for one in trajectories]


def _of_all(answer: object, trajectories: Sequence[Trajectory]) -> list[list[float] | Failed]:
    if isinstance(answer, np.ndarray):
        answer = list(answer)
    if not isinstance(answer, Failed) and (not isinstance(answer, list | tuple) or len(answer) != len(trajectories)):
        size = f"{len(answer)} answers" if isinstance(answer, list | tuple) else f"a {type(answer).__name__}"
        answer = Failed(f"gave {size} for {len(trajectories)} trajectories; wanted is a list with one for each")
    if isinstance(answer, Failed):
        return [answer] * len(trajectories)
    return [_checked(one, len(trajectory.turns)) for one, trajectory in zip(answer, trajectories, strict=True)]


def _of_turns(answers: Sequence[object]) -> list[float] | Failed:
    failed = next((one for one in answers if isinstance(one, Failed)), None)
    if failed is not None:
        return failed
    try:
        return [number(one) for one in answers]
    except ValueError as error:
        return Failed(str(error))


def _numbers(answer: list[float] | Failed) -> list[float]:
    """Returns the answer. Raises ValueError, with why, if there is none."""
    if isinstance(answer, Failed):
        raise ValueError(answer.why)
    return answer


def _checked(answer: object, num_turns: int) -> list[float] | Failed:
    try:
        return answer if isinstance(answer, Failed) else per_turn(answer, num_turns)
    except ValueError as error:
        return Failed(str(error))


def _mean(numbers: Sequence[float]) -> float:
    return float(np.mean(numbers)) if numbers else float("nan")
