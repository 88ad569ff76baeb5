"""What a run reached, as lines for people: evaluations with their standard errors, beside floor and ceiling."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragen_envs.baselines import Baselines, baselines_for
from ragen_envs.worlds import ENVIRONMENTS
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.config.task_names import game_name
from rllib_ragen.run.console import percent
from rllib_ragen.run.game_baselines import GameScale, game_scale

Scale = Baselines | GameScale
"""What success rates are read against."""


@dataclass(frozen=True)
class Evaluation:
    """Success on one split at one iteration."""

    iteration: int
    split: str
    greedy: bool
    success: float
    """NaN if every episode failed."""
    num_episodes: int
    """Episodes that count: failed ones do not."""
    episode_return: float = math.nan
    """Mean over them."""
    reply_tokens: float = math.nan
    """Mean over their turns."""
    outcomes: Mapping[str, float] = field(default_factory=dict)
    """Of a game: `win_rate_<seat>_vs_<opponent>` and the like."""

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Evaluation:
        """From an evaluation row of progress.jsonl."""
        success, episode_return, reply_tokens = (
            math.nan if row.get(name) is None else row[name] for name in ("success", "return_mean", "reply_tokens_mean")
        )
        num_episodes = int(row["num_instances"] - row["num_failed"])
        outcomes = {name: value for name, value in row.items() if "_vs_" in name and value is not None}
        return cls(
            row["iteration"], row["split"], row["greedy"], success, num_episodes, episode_return, reply_tokens, outcomes
        )

    @property
    def error(self) -> float:
        """Standard error of the success rate over the instances."""
        return math.sqrt(self.success * (1 - self.success) / max(1, self.num_episodes))

    def __str__(self) -> str:
        return f"{100 * self.success:.1f} ± {100 * self.error:.1f} %"


def find_baselines(config: RunConfig) -> Scale | None:
    """Floor, blind and ceiling of the run's task; None for one that does not tell them, as users' own."""
    if ENVIRONMENTS.is_users(config.env.name):
        return None
    game = game_name(config.env.name)
    if game is not None:
        return game_scale(game, config.env.task)
    try:
        return baselines_for(config.env.name, config.env.task, config.text_limits())
    except NotImplementedError:
        return None


def marks(scale: Scale | None) -> dict[str, float]:
    """Name → success rate in [0, 1], from the floor to the ceiling; empty without a scale."""
    if scale is None:
        return {}
    if isinstance(scale, Baselines):
        return {"random": scale.random, "best blind plan": scale.blind, "best possible": scale.best}
    scripted = {} if scale.scripted is None else {scale.scripted[0]: scale.scripted[1]}
    return {"random": scale.random} | scripted | ({} if scale.best is None else {"best possible": scale.best})


def scale_line(scale: Scale | None) -> str:
    """`random 6.6 %, best blind plan 9.4 %, best possible 97.3 %`."""
    if scale is None:
        return "baselines unknown: this task comes without them"
    line = ", ".join(f"{name} {percent(rate)}" for name, rate in marks(scale).items())
    if not isinstance(scale, GameScale):
        return line
    return f"{line}, {'each with its like' if scale.together else 'all against random'}"


def validation_line(found: Iterable[Evaluation], baselines: Scale | None) -> str:
    """One line for the evaluations of one iteration on one split."""
    evaluations = list(found)
    first = evaluations[0]
    values = ", ".join(f"{way(e.greedy)} {e}" for e in evaluations)
    line = f"{first.split} at iteration {first.iteration}: {values}  ({scale_line(baselines)})"
    return "\n".join([line, *(text for e in evaluations for text in outcome_lines(e))])


def outcome_lines(evaluation: Evaluation) -> list[str]:
    """`  T = 1, player_0 vs uniform: 61 % won, 13 % drawn, 27 % lost`, for every seat and opponent of a game."""
    found = evaluation.outcomes
    lines = []
    for name in found:
        if name.startswith("win_rate_"):
            who = name.removeprefix("win_rate_")
            won, drawn, lost = (round(100 * found[f"{outcome}_rate_{who}"]) for outcome in ("win", "draw", "loss"))
            seat, _, opponent = who.partition("_vs_")
            told = f"{won} % won, {drawn} % drawn, {lost} % lost, return {found[f'return_{who}']:+.2f}"
            lines.append(f"  {way(evaluation.greedy)}, {seat} vs {opponent}: {told}")
    return lines


def best_on_validation(evaluations: Iterable[Evaluation]) -> tuple[int, float] | None:
    """(iteration, mean success of T = 1 and greedy) of the best validation, None if there was none.

    Of equal ones that with the better mean return, then the earliest.
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


def way(greedy: bool, temperature: float = 1.0) -> str:
    """How replies were chosen."""
    return "greedy" if greedy else f"T = {temperature:g}"


def results_table(evaluations: Sequence[Evaluation], baselines: Scale | None) -> str:
    """Before and after, per split and way of decoding; the earliest and the latest of each are taken."""
    if not evaluations:
        return "Nothing was evaluated (eval.interval and eval.num_test_instances are 0)."
    by_kind: dict[tuple[str, bool], list[Evaluation]] = {}
    for evaluation in evaluations:
        by_kind.setdefault((evaluation.split, evaluation.greedy), []).append(evaluation)
    lines = [f"{'success on unseen instances':30}{'before':>16}{'after':>16}{'change':>10}   instances"]
    for (split, greedy), found in sorted(by_kind.items()):
        first, last = found[0], found[-1]
        label = f"{split}, {way(greedy)}"
        if first is last:
            before, after, change = (str(first), "", "") if first.iteration == 0 else ("", str(first), "")
        else:
            before, after, change = str(first), str(last), f"{100 * (last.success - first.success):+.1f}"
        lines.append(f"{label:30}{before:>16}{after:>16}{change:>10}{last.num_episodes:>12}")
    return "\n".join([*lines, f"on this scale: {scale_line(baselines)}"])
