"""Group filters: each strategy by hand, and what holds for any batch."""

from __future__ import annotations

from random import Random
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rllib_ragen.config.schema import CreditSection
from rllib_ragen.credit.filter_rules import FILTERS, TOP_P_EPS, filter_names
from rllib_ragen.credit.filters import filter_groups
from rllib_ragen.credit.group_scores import group_scores
from rllib_ragen.credit.registry import make_estimator
from rllib_ragen.types import StopReason, Trajectory
from tests.credit.build import group_of, trajectory

# In-group std (ddof = 1) of [+x, −x] is x·√2: scores in the ratio 4 : 3 : 2 : 1 : 0.
HALF_WIDTHS = {"a": 0.4, "b": 0.3, "c": 0.2, "d": 0.1, "e": 0.0}
LADDER = [t for group, x in HALF_WIDTHS.items() for t in group_of(group, [x, -x])]


def kept_groups(trajectories: list[Trajectory], **section: object) -> list[str]:
    kept = filter_groups(trajectories, CreditSection.model_validate(section)).kept
    return sorted({t.group_id for t in kept})


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ({"filter": "none"}, "abcde"),
        ({"filter": "top_k", "filter_value": 0.25}, "a"),  # int(1.25)
        ({"filter": "top_k", "filter_value": 0.5}, "ab"),  # int(2.5)
        ({"filter": "top_k", "filter_value": 0.01}, "a"),  # at least one
        ({"filter": "top_k", "filter_value": 1.0}, "abcd"),  # never a group without spread …
        ({"filter": "top_k", "filter_value": 1.0, "filter_zero_spread": True}, "abcde"),  # … unless asked for
        ({"filter": "top_k", "filter_value": 0.4, "filter_direction": "smallest"}, "cd"),  # int(0.4 · 5), e is flat
        ({"filter": "top_k_abs", "filter_value": 3}, "abc"),
        ({"filter": "top_k_abs", "filter_value": 9}, "abcd"),
        ({"filter": "min_p", "filter_value": 0.5}, "abc"),  # scores ≥ half of the largest: 4, 3, 2
        ({"filter": "min_p", "filter_value": 0.8}, "a"),
        ({"filter": "min_p", "filter_value": 1.0}, "a"),
        ({"filter": "top_p", "filter_value": 0.3, "filter_direction": "smallest"}, "cd"),  # 1 + 2 of 10
        # softmax of 4, 3, 2, 1 times 0.1414: shares 0.308, 0.267, 0.232, 0.193; running 0.308, 0.575, 0.807, 1
        ({"filter": "top_p_softmax", "filter_value": 0.5}, "ab"),
        ({"filter": "top_p_softmax", "filter_value": 0.6}, "abc"),
        ({"filter": "top_p_softmax", "filter_value": 0.001}, "a"),
        ({"filter": "top_p_softmax", "filter_value": 0.5, "filter_direction": "smallest"}, "cd"),
        ({"dynamic_sampling_rounds": 1}, "abcd"),  # groups without spread were sampled again
        ({"filter": "top_p", "filter_value": 0.9}, "abc"),  # 9/10 of the sum
        ({"filter": "top_p", "filter_value": 0.91}, "abcd"),
        ({"filter": "top_p", "filter_value": 0.4}, "a"),
        ({"filter": "top_p", "filter_value": 1.0}, "abcd"),  # never a group without spread
        # variances 16 : 9 : 4 : 1, Σ = 30 · 0.02: 25/30 are not 0.9, 29/30 are
        ({"filter": "top_p", "filter_value": 0.9, "filter_metric": "reward_variance"}, "abc"),
        ({"filter": "top_p", "filter_value": 0.8, "filter_metric": "reward_variance"}, "ab"),
    ],
)
def test_strategies_keep_the_hand_computed_groups(section: dict[str, object], expected: str) -> None:
    assert kept_groups(LADDER, **section) == list(expected)


@pytest.mark.parametrize(
    ("metric", "best_first"),
    [
        ("reward", "cab"),  # mean returns 0.5, −0.25, 1
        ("reward_sum", "cab"),  # 1, −0.5, 2
        ("length", "bac"),  # sampled tokens 3, 9, 2
        ("entropy", "abc"),  # −log-prob per token 0.6, 0.4, 0.2
        ("entropy_variance", "acb"),  # between 0.4 and 0.8: 0.08; equal: 0; between 0.1 and 0.3: 0.02
    ],
)
def test_further_metrics_rank_the_hand_computed_groups(metric: str, best_first: str) -> None:
    sampled = {"a": ((0.0, 1.0), 3, (0.4, 0.8)), "b": ((0.0, -0.5), 9, (0.4, 0.4)), "c": ((0.0, 2.0), 2, (0.1, 0.3))}
    batch = []
    for group, (returns, length, nats) in sampled.items():
        for reward, entropy in zip(returns, nats, strict=True):
            item = trajectory(group, [(2, length, reward)])
            item.turns[0].logprobs = np.full(length, -entropy, np.float32)
            batch.append(item)
    for count, kept in enumerate((best_first[:1], best_first[:2], best_first), start=1):
        section = {"filter": "top_k_abs", "filter_value": count, "filter_metric": metric}
        assert kept_groups(batch, **section) == sorted(kept)
    worst = {"filter": "top_k_abs", "filter_value": 1, "filter_metric": metric, "filter_direction": "smallest"}
    assert kept_groups(batch, **worst) == [best_first[-1]]


def test_scores_are_the_hand_computed_numbers() -> None:
    batch = [trajectory("a", [(2, 2, 1.0), (1, 1, 0.5)]), trajectory("a", [(1, 1, -0.5)])]
    # log-probs −(id + 1)/10 at the ids 2, 3, 5 and 1: means 0.4333333 and 0.2
    expected = {
        "reward_std": 2**0.5,
        "reward_variance": 2.0,
        "reward": 0.5,
        "reward_sum": 1.0,
        "entropy": 0.3166667,
        "entropy_variance": 0.0272222,
        "length": 2.0,
    }
    for metric, score in expected.items():
        assert group_scores(batch, metric)["a"] == pytest.approx(score, abs=1e-6)
    assert sorted(expected) == sorted(get_args(CreditSection.model_fields["filter_metric"].annotation))


def test_top_p_may_fall_short_by_its_eps() -> None:
    batch = [*group_of("a", [1.0, -1.0]), *group_of("b", [0.005, -0.005])]  # b's score 0.00707 < eps
    assert kept_groups(batch, filter="top_p", filter_value=1.0) == ["a"]


def test_top_k_share_is_not_lost_to_rounding() -> None:
    batch = [t for n in range(100) for t in group_of(f"{n:03}", [n, -n])]
    assert len(kept_groups(batch, filter="top_k", filter_value=0.29)) == 29  # 0.29 · 100 = 28.999…


STRATEGIES = filter_names()


def test_the_best_groups_softmax_is_of_its_own_score() -> None:
    """Mean rewards 3, 2 and 0: shares 0.705, 0.259 and 0.035."""
    batch = [t for group, mean in (("a", 3.0), ("b", 2.0), ("c", 0.0)) for t in group_of(group, [mean - 1, mean + 1])]
    kept = {
        value: kept_groups(batch, filter="top_p_softmax", filter_value=value, filter_metric="reward")
        for value in (0.7, 0.71, 0.96, 0.97)
    }
    assert list(kept.values()) == [["a"], ["a", "b"], ["a", "b"], ["a", "b", "c"]]


def test_filters_are_found_by_the_names_that_ship() -> None:
    assert filter_names() == ["none", "top_p", "top_p_softmax", "top_k", "top_k_abs", "min_p"]
    assert all(callable(FILTERS.resolve(name, "credit.filter")) for name in filter_names())
    with pytest.raises(ValueError, match=r"^credit\.filter: .*'topp'"):
        FILTERS.resolve("topp", "credit.filter")


@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name != "none"])
@pytest.mark.parametrize("returns", [[0.0, 0.0], [0.1, 0.1, 0.1], [0.5]])
def test_nothing_to_learn_from_means_nothing_kept(returns: list[float], strategy: str) -> None:
    result = filter_groups(group_of("a", returns), CreditSection.model_validate({"filter": strategy}))
    assert result.kept == []
    assert result.metrics["kept_groups"] == result.metrics["kept_ratio"] == 0
    assert result.metrics["group_reward_std_kept"] == 0


def test_an_empty_batch_is_empty() -> None:
    result = filter_groups([], CreditSection(filter="top_k"))
    assert result.kept == [] and result.metrics["num_groups"] == 0


def test_metrics_of_the_hand_computed_case() -> None:
    metrics = filter_groups(LADDER, CreditSection(filter="top_p", filter_value=0.9)).metrics
    assert metrics == pytest.approx(
        {
            "num_groups": 5,
            "kept_groups": 3,
            "kept_ratio": 0.6,
            "zero_spread_groups": 1,
            "group_reward_std": 2**0.5 * (0.4 + 0.3 + 0.2 + 0.1) / 5,
            "group_reward_std_kept": 2**0.5 * (0.4 + 0.3 + 0.2) / 3,
            "group_reward_mean": 0,
            "group_reward_mean_kept": 0,
            "group_reward_max": (0.4 + 0.3 + 0.2 + 0.1) / 5,
            "group_reward_max_kept": (0.4 + 0.3 + 0.2) / 3,
        }
    )


def test_ties_go_to_the_smaller_group_id() -> None:
    batch = [t for group in ("c", "a", "b") for t in group_of(group, [1.0, 0.0])]
    assert kept_groups(batch, filter="top_k", filter_value=0.67) == ["a", "b"]


RETURNS = st.one_of(st.sampled_from([-0.3, -0.1, 0.0, 0.1, 1.0, 10.9]), st.floats(-11, 11, width=32))
GROUPS = st.lists(st.lists(RETURNS, min_size=1, max_size=5), min_size=1, max_size=8)
SPREADS = ("reward_std", "reward_variance")
SECTIONS = st.builds(
    lambda strategy, value, metric, direction, flat: CreditSection.model_validate(
        {
            "filter": strategy,
            "filter_value": value if strategy != "top_k_abs" else int(1 + 9 * value),
            "filter_metric": metric,
            "filter_direction": direction if strategy != "min_p" else "largest",
            "filter_zero_spread": flat,
        }
    ),
    st.sampled_from(STRATEGIES),
    st.floats(0.01, 1),
    st.sampled_from([*SPREADS, "reward", "length", "entropy"]),
    st.sampled_from(["largest", "smallest"]),
    st.booleans(),
).filter(lambda section: section.filter_metric != "reward" or section.filter not in ("top_p", "min_p"))


def build(groups: list[list[float]]) -> list[Trajectory]:
    return [t for index, returns in enumerate(groups) for t in group_of(f"g{index}", returns)]


def scores(groups: list[list[float]], metric: str) -> dict[str, float]:
    """Written apart from the code under test; near-equal returns are no spread. Trajectories are as `group_of`'s."""
    power = 2 if metric == "reward_variance" else 1
    found = {}
    for index, returns in enumerate(groups):
        std = float(np.std(returns, ddof=1)) ** power if np.ptp(returns) >= 1e-9 else 0.0
        found[f"g{index}"] = {"reward": float(np.mean(returns)), "length": 3.0, "entropy": 0.4}.get(metric, std)
    return found


@settings(max_examples=100, deadline=None)
@given(groups=GROUPS, section=SECTIONS, seed=st.integers(0, 2**16))
def test_what_is_kept_does_not_depend_on_order(groups: list[list[float]], section: CreditSection, seed: int) -> None:
    batch = build(groups)
    shuffled = Random(seed).sample(batch, len(batch))
    before, after = filter_groups(batch, section), filter_groups(shuffled, section)
    assert {id(t) for t in before.kept} == {id(t) for t in after.kept}
    assert repr(before.metrics) == repr(after.metrics)  # exactly, not approximately, and NaN is NaN
    kept = {id(t) for t in after.kept}
    assert [id(t) for t in after.kept] == [id(t) for t in shuffled if id(t) in kept]  # order of arrival is kept


@settings(max_examples=200, deadline=None)
@given(groups=GROUPS, section=SECTIONS)
def test_groups_stay_whole_the_best_is_never_dropped_and_only_flat_batches_end_empty(
    groups: list[list[float]], section: CreditSection
) -> None:
    batch = build(groups)
    result = filter_groups(batch, section)
    names = {t.group_id for t in result.kept}
    assert [t for t in batch if t.group_id in names] == result.kept
    flat = {name for name, spread in scores(groups, "reward_std").items() if spread == 0}
    by_group = scores(groups, section.filter_metric)
    if section.filter != "none" and not section.filter_zero_spread:
        assert not flat & names
        by_group = {name: score for name, score in by_group.items() if name not in flat}
    assert bool(names) == bool(by_group), "an empty selection, and so a skipped update, only where all groups are flat"
    sign = 1 if section.filter_direction == "largest" else -1
    kept = [sign * score for name, score in by_group.items() if name in names]
    dropped = [sign * score for name, score in by_group.items() if name not in names]
    assert not dropped or max(dropped) <= min(kept) + 1e-9


@settings(max_examples=100, deadline=None)
@given(groups=GROUPS, value=st.floats(0.01, 1))
def test_top_p_reaches_its_share_with_as_few_groups_as_possible(groups: list[list[float]], value: float) -> None:
    section = CreditSection(filter="top_p", filter_value=value)
    by_group = scores(groups, "reward_std")
    kept = sorted(by_group[name] for name in {t.group_id for t in filter_groups(build(groups), section).kept})
    need = value * sum(by_group.values()) - TOP_P_EPS
    assert sum(kept) >= need - 1e-9
    assert len(kept) <= 1 or sum(kept[1:]) < need + 1e-9


@settings(max_examples=50, deadline=None)
@given(groups=GROUPS, section=SECTIONS, name=st.sampled_from(["grpo", "rloo", "dr_grpo", "turn_grpo", "gigpo"]))
def test_dropped_groups_never_move_a_baseline(groups: list[list[float]], section: CreditSection, name: str) -> None:
    batch = build(groups)
    estimator = make_estimator(CreditSection(estimator=name))
    everyone = {id(t): c for t, c in zip(batch, estimator(batch), strict=True)}
    kept = filter_groups(batch, section).kept
    for item, credit in zip(kept, estimator(kept), strict=True):
        assert credit.advantages.tolist() == everyone[id(item)].advantages.tolist()


def test_a_failed_trajectory_is_refused() -> None:
    batch = [*group_of("a", [1.0, 0.0]), trajectory("a", [(2, 3, 0.0)], StopReason.ENV_ERROR)]
    with pytest.raises(ValueError, match="failed trajectory"):
        filter_groups(batch, CreditSection())


def test_no_groups_are_no_share_of_groups() -> None:
    assert filter_groups([], CreditSection()).metrics["kept_ratio"] == 0.0


def test_top_k_abs_keeps_at_least_one_group() -> None:
    assert kept_groups(LADDER, filter="top_k_abs", filter_value=0.5) == ["a"]


@pytest.mark.parametrize(("strategy", "value"), [("top_p", 0.505), ("top_p_softmax", 0.5)])
def test_a_running_sum_that_just_reaches_its_share_is_enough(strategy: str, value: float) -> None:
    """Two equal scores of 1: 1 ≥ 0.505 · 2 − 0.01, and half of the softmax is half."""
    batch = [*group_of("a", [0.0, 2.0]), *group_of("b", [0.0, 2.0])]
    assert kept_groups(batch, filter=strategy, filter_value=value, filter_metric="reward") == ["a"]


@pytest.mark.parametrize("metric", ["reward_std", "reward_variance", "reward", "reward_sum", "entropy_variance"])
def test_scores_are_the_same_to_the_last_bit_in_any_order(metric: str) -> None:
    batch = [trajectory("a", [(2, n, r)]) for n, r in ((1, 0.1), (3, 0.2), (2, 0.3), (7, 0.7), (5, -1.1))]
    scores = {group_scores(Random(seed).sample(batch, len(batch)), metric)["a"] for seed in range(20)}
    assert len(scores) == 1


def test_a_trajectory_without_a_sampled_token_has_no_entropy() -> None:
    assert group_scores([trajectory("a", [(3, 0, 1.0)])], "entropy") == {"a": 0.0}


def test_a_filter_that_keeps_what_may_not_be_kept_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for kept in ("a", ["a", "e"], ["nobody"]):  # "a" is a word, not a collection of groups; e has no spread
        monkeypatch.setattr(FILTERS, "resolve", lambda name, key, kept=kept: lambda ranking: kept)
        with pytest.raises(ValueError, match=r"credit\.filter=top_k keeps"):
            filter_groups(LADDER, CreditSection(filter="top_k"))
    monkeypatch.setattr(FILTERS, "resolve", lambda name, key: lambda ranking: ["b", "a"])
    assert kept_groups(LADDER, filter="top_k") == ["a", "b"]


def test_metrics_count_every_group_once_whatever_its_size() -> None:
    """Means 1/2 and 1/4, maxima 1 and 1."""
    batch = [*group_of("a", [0.0, 1.0]), *group_of("b", [0.0, 0.0, 0.0, 1.0])]
    metrics = filter_groups(batch, CreditSection()).metrics
    assert metrics["group_reward_mean"] == pytest.approx((1 / 2 + 1 / 4) / 2)
    assert metrics["group_reward_max"] == pytest.approx(1.0)


def test_metrics_are_the_same_to_the_last_bit_in_any_order() -> None:
    batch = [t for n, r in enumerate((0.1, 0.2, 0.3, 0.7, -1.1)) for t in group_of(str(n), [r, r / 3, 0.01])]
    found = [filter_groups(Random(seed).sample(batch, len(batch)), CreditSection()).metrics for seed in range(20)]
    assert all(metrics == found[0] for metrics in found)
