"""Floor and ceiling: calibrated, reproducible, shipped for every preset, cached for everything else."""

from __future__ import annotations

import json
import re
from itertools import count
from pathlib import Path

import pytest

from ragen_envs import make_task
from ragen_envs.baselines import (
    Baselines,
    baselines_for,
    compute_baselines,
    settings_key,
    shipped_baselines,
)
from ragen_envs.blind import blind_success
from ragen_envs.cache import cache_folder, read_cached, write_cached
from ragen_envs.policies import Clock, best_success, random_success
from ragen_envs.presets import all_presets, preset
from ragen_envs.text import TextLimits


def _shipped(env: str, name: str) -> Baselines:
    task, limits = preset(env, name)
    return shipped_baselines()[settings_key(env, task, TextLimits(**limits))]


@pytest.mark.parametrize(
    ("env", "name", "floor", "ceiling"),
    [
        ("sokoban", "default", 0.166, 0.99),
        ("sokoban", "8x8-2-boxes", 0.008, 0.33),
        ("frozen_lake", "ragen-v1", 0.22, 0.50),
        ("frozen_lake", "default", 0.25, 0.94),
        ("bandit", "default", 0.5, 1.0),
    ],
)
def test_floors_and_ceilings_are_what_these_rules_are_known_for(
    env: str, name: str, floor: float, ceiling: float
) -> None:
    """Figures computed elsewhere for the same rules; the instances are others, so within four standard errors."""
    found = _shipped(env, name)
    assert found.random == pytest.approx(floor, abs=0.04)
    assert found.best == pytest.approx(ceiling, abs=0.06)


def test_every_preset_is_shipped_with_rates_in_order_and_notes() -> None:
    for env, name, _ in all_presets():
        found = _shipped(env, name)
        assert 0 <= found.random <= found.best <= 1
        assert 0 <= found.blind <= found.best
        assert set(found.notes) == {"random", "blind", "best"}
        counts = {int(number) for note in found.notes.values() for number in re.findall(r"(\d+) test instances", note)}
        # 256, as an evaluation plays them, or all that the split holds.
        assert len(counts) == 1 and counts <= set(range(8, 257)), (env, name)


@pytest.mark.parametrize(("env", "name"), [("bandit", "ragen-v1"), ("bandit", "reversed"), ("countdown", "default")])
def test_shipped_values_come_out_again(env: str, name: str) -> None:
    task, limits = preset(env, name)
    assert compute_baselines(settings_key(env, task, TextLimits(**limits))) == _shipped(env, name)


@pytest.mark.slow
@pytest.mark.parametrize("case", all_presets(), ids=lambda case: f"{case[0]}-{case[1]}")
def test_all_shipped_values_come_out_again(case: tuple[str, str, tuple[dict[str, object], dict[str, object]]]) -> None:
    env, name, (task, limits) = case
    key = settings_key(env, task, TextLimits(**limits))  # type: ignore[arg-type]
    assert compute_baselines(key) == _shipped(env, name)


@pytest.mark.parametrize(("env", "name"), [("sokoban", "default"), ("frozen_lake", "default")])
def test_shipped_values_agree_with_a_smaller_sample(env: str, name: str) -> None:
    task, limits = preset(env, name)
    shipped, clock = _shipped(env, name), Clock(150)
    for score, expected in (
        (random_success(make_task(env, **task), TextLimits(**limits), clock), shipped.random),
        (best_success(make_task(env, **task), TextLimits(**limits), clock), shipped.best),
    ):
        assert score.instances == 150
        assert abs(score.rate - expected) <= 4 * score.error + 0.01


def test_blind_plans_beat_random_play_on_frozen_lake_without_slips_and_are_reproducible() -> None:
    limits = TextLimits(max_actions=6)

    def found() -> tuple[float, tuple[int, ...]]:
        score, plan = blind_success(lambda: make_task("frozen_lake", success_rate=1.0), limits, Clock(100))
        return score.rate, plan

    rate, plan = found()
    assert (rate, plan) == found()
    assert len(plan) <= 6
    floor = random_success(make_task("frozen_lake", success_rate=1.0), limits, Clock(100))
    assert rate > floor.rate


def test_more_actions_never_lower_the_ceiling() -> None:
    task = make_task("sokoban")
    rates = [best_success(task, TextLimits(max_actions=actions), Clock(60)).rate for actions in (1, 3, 5, 10)]
    assert rates == sorted(rates)
    assert rates[0] < rates[-1]
    # 2 turns × 2 actions allow no more than 4 actions.
    tight = best_success(task, TextLimits(max_turns=2, max_actions_per_turn=2), Clock(60)).rate
    assert tight == best_success(task, TextLimits(max_actions=4), Clock(60)).rate


def test_the_key_holds_what_matters_and_nothing_else() -> None:
    plain = settings_key("sokoban")
    assert plain == settings_key("ragen/Sokoban-v0", {"observation": "grid", "pool_size": 300, "height": 6})
    assert plain == settings_key("sokoban", None, TextLimits(format_penalty=-1, think=False, prompt_style="brief"))
    assert plain != settings_key("sokoban", {"height": 7})
    assert plain != settings_key("sokoban", None, TextLimits(max_actions=9))


@pytest.mark.parametrize(("env", "task"), [("sokobann", {}), ("sokoban", {"heigth": 6})])
def test_unknown_names_and_settings_are_refused(env: str, task: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=env):
        baselines_for(env, task)


def test_other_settings_are_computed_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    settings, limits = {"low_reward": 0.11}, TextLimits(max_turns=1)
    found = baselines_for("bandit", settings, limits)
    assert found.best == 1.0
    assert found.random == pytest.approx(0.5, abs=0.06)
    (file,) = (tmp_path / "rllib_ragen" / "baselines").iterdir()
    key = settings_key("bandit", settings, limits)
    kept = json.loads(file.read_text(encoding="utf-8"))
    assert kept["key"] == key
    assert Baselines(**kept["value"]) == found


def test_a_damaged_or_foreign_cache_entry_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert write_cached("kind", "key", {"a": 1})
    assert read_cached("kind", "key") == {"a": 1}
    assert read_cached("kind", "other") is None
    (file,) = (cache_folder() / "kind").iterdir()
    for damage in ("", "{", "[]", '{"key": "other", "value": {"a": 1}}', '{"key": "key", "value": 3}'):
        file.write_text(damage, encoding="utf-8")
        assert read_cached("kind", "key") is None


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    assert not write_cached("kind", "key", {})
    assert read_cached("kind", "key") is None


def test_the_clock_stops_but_looks_at_enough() -> None:
    assert len(list(Clock(100).while_it_lasts(count()))) == 100
    assert len(list(Clock(100, seconds=0.0, at_least=7).while_it_lasts(count()))) == 7
