"""The formulas on policies whose entropies are known in closed form."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rllib_ragen.diagnostics.information import Regime, Scores, information, metric_names, regime

N = 16
LENGTH = 5
NEVER = -200.0
"""A log-prob that counts as impossible."""


def scores(logprobs: np.ndarray, lengths: int | list[int] = LENGTH, own: list[int] | None = None) -> Scores:
    n = len(logprobs)
    columns = np.arange(n) if own is None else np.array(own)
    return Scores(logprobs.astype(np.float64), np.broadcast_to(np.array(lengths), n).astype(np.int64), columns)


def measure(given: Scores) -> dict[str, float]:
    return information(given, {})[0]


def copies() -> Scores:
    """Each prompt has one thought of its own, said with certainty."""
    return scores(np.where(np.eye(N) > 0, 0.0, NEVER))


def test_a_policy_that_copies_its_prompt_has_all_the_information_and_no_entropy() -> None:
    found = measure(copies())
    assert found["mutual_information_seq"] == pytest.approx(math.log(N))
    assert found["marginal_entropy_seq"] == pytest.approx(math.log(N))
    assert found["conditional_entropy_seq"] == found["conditional_entropy_token"] == 0
    assert found["information_share"] == pytest.approx(1)
    assert [found[f"retrieval_{k}"] for k in (1, 2, 4, 8)] == [1, 1, 1, 1]
    assert [found[f"retrieval_chance_{k}"] for k in (1, 2, 4, 8)] == [1 / N, 2 / N, 4 / N, 8 / N]
    assert regime(found, 0.1, 0.5) is Regime.COMPRESSED_REASONING


def test_a_policy_that_ignores_its_prompt_has_none_and_is_retrieved_by_chance() -> None:
    # Uniform over 4 tokens at each of 5 positions, whatever the prompt.
    found = measure(scores(np.full((N, N), LENGTH * math.log(1 / 4))))
    assert found["mutual_information_seq"] == pytest.approx(0, abs=1e-12)
    assert found["mutual_information_token"] == pytest.approx(0, abs=1e-12)
    assert found["conditional_entropy_seq"] == pytest.approx(LENGTH * math.log(4))
    assert found["conditional_entropy_token"] == pytest.approx(math.log(4))
    assert found["marginal_entropy_token"] == pytest.approx(math.log(4))
    for k in (1, 2, 4, 8):
        assert found[f"retrieval_{k}"] == pytest.approx(found[f"retrieval_chance_{k}"]) == k / N
    assert regime(found, 0.1, 0.5) is Regime.TEMPLATE_COLLAPSE


def test_a_policy_that_always_says_the_same_is_a_low_entropy_collapse() -> None:
    found = measure(scores(np.zeros((N, N))))
    for name in ("conditional_entropy", "marginal_entropy", "mutual_information", "information_z"):
        assert found[f"{name}_seq"] == pytest.approx(0, abs=1e-12), name
    assert regime(found, 0.1, 0.5) is Regime.LOW_ENTROPY_COLLAPSE


def test_a_policy_uniform_over_thoughts_of_its_own_prompt_has_both() -> None:
    # Each prompt has its own 8 equally likely thoughts: H(Z|X) = log 8, I = log N, H(Z) = log 8N.
    found = measure(scores(np.where(np.eye(N) > 0, math.log(1 / 8), NEVER)))
    assert found["conditional_entropy_seq"] == pytest.approx(math.log(8))
    assert found["mutual_information_seq"] == pytest.approx(math.log(N))
    assert found["marginal_entropy_seq"] == pytest.approx(math.log(8 * N))
    assert regime(found, 0.1, 0.5) is Regime.DIVERSE_REASONING


def test_the_numbers_of_a_case_worked_by_hand() -> None:
    # Two prompts, thoughts of 1 and 2 tokens. Probabilities: z0: (0.8, 0.2), z1: (0.1, 0.4).
    found, ema = information(scores(np.log([[0.8, 0.2], [0.1, 0.4]]), [1, 2]), {})
    assert found["conditional_entropy_seq"] == pytest.approx(-(math.log(0.8) + math.log(0.4)) / 2)
    assert found["marginal_entropy_seq"] == pytest.approx(-(math.log(0.5) + math.log(0.25)) / 2)
    assert found["mutual_information_seq"] == pytest.approx((math.log(0.8 / 0.5) + math.log(0.4 / 0.25)) / 2)
    # Per token, ℓ of z1 is half its log-prob: probabilities √0.1 and √0.4, mean (0.31623 + 0.63246) / 2 = 0.47434.
    assert found["conditional_entropy_token"] == pytest.approx(-(math.log(0.8) + math.log(0.4) / 2) / 2)
    assert found["marginal_entropy_token"] == pytest.approx(-(math.log(0.5) + math.log(0.4743416)) / 2)
    # std (ddof 1) of (log 0.5, log 0.25) is log 2 / √2.
    std = math.log(2) / math.sqrt(2)
    assert ema["seq"] == pytest.approx(std)
    assert found["information_z_seq"] == pytest.approx(math.log(1.6) / (std + 1e-3))
    assert found["information_z_ema_seq"] == pytest.approx(found["information_z_seq"])
    assert (found["retrieval_1"], found["retrieval_2"], found["retrieval_chance_1"]) == (1, 1, 0.5)


def test_the_running_std_moves_by_a_tenth() -> None:
    given = scores(np.log([[0.8, 0.2], [0.1, 0.4]]), [1, 2])
    found, ema = information(given, {"seq": 2.0, "token": 1.0})
    std = math.log(2) / math.sqrt(2)
    assert ema["seq"] == pytest.approx(0.9 * 2.0 + 0.1 * std)
    assert found["information_z_ema_seq"] == pytest.approx(math.log(1.6) / (ema["seq"] + 1e-3))


def test_a_prompt_that_is_sampled_twice_counts_twice() -> None:
    # Scoring the same prompt in two columns, or once with two thoughts that own it, must mean the same.
    logprobs = np.log([[0.6, 0.1], [0.3, 0.2], [0.05, 0.7]])
    once = measure(scores(logprobs, own=[0, 0, 1]))
    twice = Scores(logprobs[:, [0, 0, 1]], np.full(3, LENGTH), np.array([0, 1, 2]))
    for name in ("mutual_information_seq", "marginal_entropy_token", "conditional_entropy_seq", "information_z_token"):
        assert once[name] == pytest.approx(measure(twice)[name]), name
    assert once["information_share"] == pytest.approx(
        once["mutual_information_seq"] / (-2 / 3 * math.log(2 / 3) - 1 / 3 * math.log(1 / 3))
    )


def test_identical_prompts_bound_the_information_by_their_own_entropy() -> None:
    # 16 thoughts after 4 distinct prompts, each copied: I = log 4, not log 16.
    own = [i // 4 for i in range(N)]
    logprobs = np.where(np.arange(4)[None, :] == np.array(own)[:, None], 0.0, NEVER)
    found = measure(scores(logprobs, own=own))
    assert found["mutual_information_seq"] == pytest.approx(math.log(4))
    assert found["information_share"] == pytest.approx(1)
    assert (found["num_thoughts"], found["num_prompts"], found["retrieval_chance_1"]) == (16, 4, 0.25)


def test_one_prompt_only_says_nothing_about_information() -> None:
    found = measure(scores(np.log([[0.5], [0.25]]), own=[0, 0]))
    assert found["mutual_information_seq"] == pytest.approx(0)
    assert math.isnan(found["information_share"])
    assert (found["retrieval_1"], found["retrieval_chance_1"]) == (1, 1)
    assert regime(found, 0.1, 0.5) is None


def test_no_thought_gives_no_number_and_leaves_the_running_std_alone() -> None:
    found, ema = information(Scores(np.zeros((0, 0)), np.zeros(0, np.int64), np.zeros(0, np.int64)), {"seq": 2.0})
    assert ema == {"seq": 2.0}
    assert found.keys() == set(metric_names())
    assert found["num_thoughts"] == 0
    assert all(math.isnan(found[name]) for name in found if not name.startswith("num_"))
    assert regime(found, 0.1, 0.5) is None


def test_an_empty_thought_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one token"):
        scores(np.zeros((2, 2)), [3, 0])


def test_sampled_thoughts_estimate_the_true_information_of_a_noisy_channel() -> None:
    # Prompt x is passed on with probability 0.75, else another of the N symbols: I = H(Z) − H(Z|X) in closed form.
    rng = np.random.default_rng(0)
    keep, n = 0.75, 4096
    x = np.arange(n) % N
    z = np.where(rng.random(n) < keep, x, (x + rng.integers(1, N, n)) % N)
    logprobs = np.where(z[:, None] == np.arange(N)[None, :], math.log(keep), math.log((1 - keep) / (N - 1)))
    found = measure(scores(logprobs, 1, own=x.tolist()))
    h = -keep * math.log(keep) - (1 - keep) * math.log((1 - keep) / (N - 1))
    assert found["conditional_entropy_seq"] == pytest.approx(h, abs=0.05)
    assert found["mutual_information_seq"] == pytest.approx(math.log(N) - h, abs=0.05)
    assert found["retrieval_1"] == pytest.approx(keep, abs=0.03)


def test_a_policy_that_knows_half_of_its_prompt() -> None:
    # The thought tells which half of the prompts it was: I = log 2, and own prompts are among the likeliest N/2.
    half = np.arange(N) // (N // 2)
    found = measure(scores(np.where(half[:, None] == half[None, :], math.log(1 / 3), NEVER)))
    assert found["mutual_information_seq"] == pytest.approx(math.log(2))
    assert found["retrieval_1"] == pytest.approx(2 / N)
    assert found["retrieval_8"] == 1
