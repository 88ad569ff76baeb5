"""Results of evaluations in words, with standard errors, beside floor and ceiling."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ragen_envs.baselines import Baselines, baselines_for
from rllib_ragen.config.environments import worlds
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.config.task_names import game_name, is_shipped
from rllib_ragen.rollout.statistics import clustered_error
from rllib_ragen.run.console import percent
from rllib_ragen.run.game_baselines import GameScale, game_scale

_PART = "/success"
_LEVEL = re.compile(r"level_\d+")
Scale = Baselines | GameScale
"""Floor and ceiling of success rates."""


@dataclass(frozen=True)
class Evaluation:
    """The result of an evaluation on one split at one iteration."""

    iteration: int
    split: str
    greedy: bool
    temperature: float
    """Sampling temperature of evaluations that are not greedy."""
    success: float
    """Mean over distinct instances; NaN if every episode failed."""
    num_episodes: int
    """Number of episodes, without failed ones."""
    episode_return: float = math.nan
    """Mean return over the episodes."""
    reply_tokens: float = math.nan
    """Mean number of reply tokens over the episodes' turns."""
    outcomes: Mapping[str, float] = field(default_factory=dict)
    """Outcomes of a game: `win_rate_<seat>_vs_<opponent>` and the like."""
    instances: Mapping[str, float] = field(default_factory=dict)
    """Mean success of each distinct instance, by a digest of its key; empty in rows of earlier versions, and where the
    parts have them."""
    parts: Mapping[str, Evaluation] = field(default_factory=dict)
    """What is told of each of several environments (`sokoban`), and of a curriculum's earlier levels
    (`sokoban/level_1`, `level_1`)."""

    @classmethod
    def from_row(cls, row: Mapping[str, Any], temperature: float) -> Evaluation:
        """Reads an evaluation row of progress.jsonl, with the run's `eval_temperature`."""
        paths = [name.removesuffix(_PART) for name in row if name.endswith(_PART)]
        parts = {path: cls._from_part(row, f"{path}/", temperature) for path in paths}
        return replace(cls._from_part(row, "", temperature), parts=parts)

    @classmethod
    def _from_part(cls, whole: Mapping[str, Any], prefix: str, temperature: float) -> Evaluation:
        row = {name: whole[name] for name in ("iteration", "split", "greedy")} | _below(whole, prefix)
        success, episode_return, reply_tokens = (
            math.nan if row.get(name) is None else row[name] for name in ("success", "return_mean", "reply_tokens_mean")
        )
        num_episodes = int(row["num_instances"] - row["num_failed"])
        outcomes = {name: value for name, value in row.items() if "_vs_" in name and value is not None}
        instances = _below(whole.get("instances", {}), prefix)
        return cls(
            iteration=row["iteration"],
            split=row["split"],
            greedy=row["greedy"],
            temperature=temperature,
            success=success,
            num_episodes=num_episodes,
            episode_return=episode_return,
            reply_tokens=reply_tokens,
            outcomes=outcomes,
            instances=instances,
        )

    @property
    def way(self) -> str:
        """Decoding of its replies, in words."""
        return way(self.greedy, self.temperature)

    @property
    def error(self) -> float:
        """Standard error of the success rate over distinct instances; NaN where there are not two, or none are told.

        Of a mean over environments it follows from theirs.
        """
        if self._targets:
            return _error_of_mean([part.error for part in self._targets.values()])
        return clustered_error(list(self.instances.values()))

    @property
    def is_mean(self) -> bool:
        """Whether it is the mean of several environments' evaluations."""
        return bool(self._targets)

    @property
    def _targets(self) -> Mapping[str, Evaluation]:
        """Several environments, of which this is the mean."""
        if self.instances:
            return {}
        return {path: part for path, part in self.parts.items() if not _LEVEL.fullmatch(path.rpartition("/")[2])}

    @property
    def num_instances(self) -> int:
        """Distinct instances, of several environments all of them; 0 in rows of earlier versions."""
        return len(self.instances) or sum(len(part.instances) for part in self._targets.values())

    @property
    def count(self) -> str:
        """Size of the evaluation in words: `256 instances`, or `8 instances, 256 episodes`."""
        episodes = f"{self.num_episodes} episode{'' if self.num_episodes == 1 else 's'}"
        number = self.num_instances
        if not number:
            return episodes
        distinct = f"{number} instance{'' if number == 1 else 's'}"
        return distinct if number == self.num_episodes else f"{distinct}, {episodes}"

    def change_to(self, later: Evaluation) -> tuple[float, float]:
        """Returns (change of success, its standard error) on the instances of both, compared one by one.

        Easy instances are easy before and after: the error of the change is smaller than that of either rate.
        Without instances in common: the difference of the rates, and NaN.
        """
        if self._targets and self._targets.keys() == later._targets.keys():
            found = [part.change_to(later.parts[path]) for path, part in self._targets.items()]
            return sum(change for change, _ in found) / len(found), _error_of_mean([error for _, error in found])
        common = self.instances.keys() & later.instances.keys()
        if not common:
            return later.success - self.success, math.nan
        changes = [later.instances[key] - self.instances[key] for key in sorted(common)]
        return sum(changes) / len(changes), clustered_error(changes)

    def __str__(self) -> str:
        return f"{100 * self.success:.1f} {plus_minus(self.error)}"


def find_baselines(config: RunConfig) -> Scale | None:
    """Returns floor, blind and ceiling of the run's task, of a curriculum at its target level; None for one that does
    not tell them, as users' own.
    """
    config = worlds(config)[0].target
    if not is_shipped(config.env.name):
        return None
    game = game_name(config.env.name)
    if game is not None:
        return game_scale(game, config.env.task)
    try:
        return baselines_for(config.env.name, config.env.task, config.text_limits())
    except NotImplementedError:
        return None


def _below(tree: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Returns what has `prefix` in front of its name, without it; of no prefix what has no slash."""
    names = {name: name.removeprefix(prefix) for name in tree if name.startswith(prefix)}
    return {short: tree[name] for name, short in names.items() if "/" not in short}


def _error_of_mean(errors: Sequence[float]) -> float:
    """Returns the standard error of a mean of independent figures with these."""
    return math.sqrt(sum(error**2 for error in errors)) / len(errors)


def marks(scale: Scale | None) -> dict[str, float]:
    """Returns success rates in [0, 1] by name, from the floor to the ceiling; empty without a scale."""
    if scale is None:
        return {}
    if isinstance(scale, Baselines):
        return {"random": scale.random, "best blind plan": scale.blind, "best possible": scale.best}
    scripted = {} if scale.scripted is None else {scale.scripted[0]: scale.scripted[1]}
    return {"random": scale.random} | scripted | ({} if scale.best is None else {"best possible": scale.best})


def scale_line(scale: Scale | None) -> str:
    """Formats floor and ceiling: `random 6.6 %, best blind plan 9.4 %, best possible 97.3 %`."""
    if scale is None:
        return "baselines unknown: this task comes without them"
    line = ", ".join(f"{name} {percent(rate)}" for name, rate in marks(scale).items())
    if not isinstance(scale, GameScale):
        return line
    return f"{line}, {'each with its like' if scale.together else 'all against random'}"


def validation_line(found: Iterable[Evaluation], baselines: Scale | None) -> str:
    """Formats the evaluations of one iteration on one split as one line."""
    evaluations = list(found)
    first = evaluations[0]
    values = ", ".join(f"{e.way} {e}" for e in evaluations)
    line = f"{first.split} at iteration {first.iteration}, {first.count}: {values}  ({scale_line(baselines)})"
    return "\n".join([line, *(text for e in evaluations for text in outcome_lines(e))])


def outcome_lines(evaluation: Evaluation) -> list[str]:
    """Returns `  T = 1, player_0 vs uniform: 61 % won, 13 % drawn, 27 % lost`, for every seat and opponent of a
    game.
    """
    found = evaluation.outcomes
    lines = []
    for name in found:
        if name.startswith("win_rate_"):
            who = name.removeprefix("win_rate_")
            won, drawn, lost = (round(100 * found[f"{outcome}_rate_{who}"]) for outcome in ("win", "draw", "loss"))
            seat, _, opponent = who.partition("_vs_")
            told = f"{won} % won, {drawn} % drawn, {lost} % lost, return {found[f'return_{who}']:+.2f}"
            lines.append(f"  {evaluation.way}, {seat} vs {opponent}: {told}")
    return lines


def best_on_validation(evaluations: Iterable[Evaluation]) -> tuple[int, float] | None:
    """Returns (iteration, mean success of sampled and greedy) of the best validation, None if there was none.

    As the highest of several figures with errors, it is biased upwards. Of equal ones that with the better mean return
    is taken, then the earliest.
    """
    found: dict[int, list[Evaluation]] = {}
    for evaluation in evaluations:
        if evaluation.split == "val" and math.isfinite(evaluation.success):
            found.setdefault(evaluation.iteration, []).append(evaluation)
    scores = []
    for iteration, ways in found.items():
        if len(ways) == 2:
            returns = [-math.inf if math.isnan(one.episode_return) else one.episode_return for one in ways]
            scores.append((sum(one.success for one in ways) / 2, sum(returns), -iteration))
    if not scores:
        return None
    success, _, iteration = max(scores)
    return -iteration, success


def way(greedy: bool, *temperatures: float) -> str:
    """Returns the decoding in words: `greedy`, `T = 0.7`, or, for several temperatures, `sampled, T of the run`."""
    if greedy:
        return "greedy"
    first, *others = dict.fromkeys(temperatures)
    return "sampled, T of the run" if others else f"T = {first:g}"


def plus_minus(error: float) -> str:
    """Formats a standard error after a figure in percent: `± 2.9 %`, or `% (± n/a)` if it is unknown."""
    return f"± {100 * error:.1f} %" if math.isfinite(error) else "% (± n/a)"


def results_table(evaluations: Sequence[Evaluation], baselines: Scale | None) -> str:
    """Returns a table of the earliest and the latest evaluation per split and decoding.

    Errors are standard errors over distinct instances; that of the change compares each instance with itself.
    """
    if not evaluations:
        return "Nothing was evaluated (eval.interval and eval.num_test_instances are 0)."
    by_kind: dict[tuple[str, bool], list[Evaluation]] = {}
    for evaluation in evaluations:
        by_kind.setdefault((evaluation.split, evaluation.greedy), []).append(evaluation)
    lines = [f"{'success on unseen instances':30}{'before':>18}{'after':>18}{'change':>18}   n"]
    for (split, _), found in sorted(by_kind.items()):
        first, last = found[0], found[-1]
        label = f"{split}, {last.way}"
        if first is last:
            before, after, change = (str(first), "", "") if first.iteration == 0 else ("", str(first), "")
        else:
            difference, error = first.change_to(last)
            before, after, change = str(first), str(last), f"{100 * difference:+.1f} {plus_minus(error)}"
        lines.append(f"{label:30}{before:>18}{after:>18}{change:>18}   {last.count}")
    return "\n".join([*lines, f"on this scale: {scale_line(baselines)}"])
