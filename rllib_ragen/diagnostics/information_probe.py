"""The information diagnostics of an iteration: selects thoughts, has them scored, and names the metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from rllib_ragen.config.schema import DiagnosticsSection
from rllib_ragen.diagnostics.information import Array, Scores, information, metric_names, regime
from rllib_ragen.diagnostics.thoughts import Decode, any_turns, first_turns
from rllib_ragen.types import IntArray, Trajectory

Score = Callable[[Sequence[IntArray], Sequence[IntArray]], Array]
"""A function from M prompts and N thoughts to [N, M] log-probs."""
SAMPLES = {"first_turn": first_turns, "any_turn": any_turns}
REGIME = "regime"


def probe_metric_names() -> list[str]:
    """Returns the names of all metrics of `probe`."""
    return [f"{sample}_{name}" for sample in SAMPLES for name in (*metric_names(), REGIME)]


def is_due(interval: int, iteration: int) -> bool:
    """Returns whether to measure the iteration after `iteration` finished ones; never with an interval of 0."""
    return interval > 0 and iteration % interval == 0


def probe(
    trajectories: Sequence[Trajectory],
    section: DiagnosticsSection,
    *,
    score: Score,
    decode: Decode,
    seed: Sequence[int],
    std_ema: Mapping[str, float],
) -> tuple[dict[str, float], dict[str, float]]:
    """Measures a sample of first turns, and a sample of all turns.

    Args:
        trajectories: trajectories of one iteration, before filtering, none failed, sampled by the weights of `score`.
        section: number of thoughts, and thresholds of high entropy and information.
        score: scores thoughts with the policy.
        decode: returns the text of a reply's first tokens.
        seed: seed of the choice of thoughts; no other random state is used.
        std_ema: running means of an earlier call, by metric prefix and form; empty at first.

    Returns:
        (metrics named `first_turn_…` and `any_turn_…`, as information() has them, and `…_regime`, NaN or a Regime's
        number; the running means for the next call).
    """
    metrics: dict[str, float] = {}
    running: dict[str, float] = {}
    for number, (name, choose) in enumerate(SAMPLES.items()):
        sample = choose(trajectories, section.num_prompts, decode, [*seed, number])
        lengths = np.array([len(thought) for thought in sample.thoughts], np.int64)
        logprobs = score(sample.prompts, sample.thoughts) if sample.thoughts else np.zeros((0, 0))
        scores = Scores(logprobs, lengths, np.array(sample.own, np.int64))
        before = {key.removeprefix(f"{name}_"): std for key, std in std_ema.items() if key.startswith(name)}
        found, after = information(scores, before)
        which = regime(found, section.high_entropy, section.high_information)
        found[REGIME] = float("nan") if which is None else float(which)
        metrics |= {f"{name}_{key}": value for key, value in found.items()}
        running |= {f"{name}_{form}": std for form, std in after.items()}
    return metrics, running
