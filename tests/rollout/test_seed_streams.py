"""No two uses of randomness share a seed: streams by name, and tests over all pairs of them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rllib_ragen
from ragen_envs.games.registry import make_game
from ragen_envs.seeds import BLOCK, Stream, block_of, generator, seed_of
from ragen_envs.splits import Split, instance_seed
from ragen_envs.task import chance_seed
from rllib_ragen.models.tiny.demonstrations import Recipe, demonstration_seeds
from rllib_ragen.models.tiny.game_model import game_seeds
from rllib_ragen.models.tiny.make import phases, words_phases
from rllib_ragen.rollout.specs import evaluation_specs, training_specs
from rllib_ragen.tournament.matches import round_robin

_RUN_SEEDS = (0, 1, 2, 7, 42, 10_000_000)
_COUNT = 1_000


def _training(seed: int, kind: str) -> Callable[[], list[int]]:
    return lambda: sorted({getattr(spec, kind) for spec in training_specs(seed, 0, _COUNT // 4, 4)})


def _evaluation(split: str, kind: str) -> Callable[[], list[int]]:
    return lambda: [getattr(spec, kind) for spec in evaluation_specs(split, range(_COUNT))]


def _tournament(seed: int, kind: str) -> Callable[[], list[int]]:
    fixtures = round_robin(["one", "other"], make_game("kuhn_poker"), _COUNT // 2, seed)
    return lambda: sorted({getattr(fixture, kind) for fixture in fixtures})


def _demonstrations(recipe: Recipe) -> Callable[[], list[int]]:
    return lambda: list(demonstration_seeds(recipe))[:_COUNT]


_KINDS = ("env_seed", "outcome_seed", "sampling_seed")
USES: dict[str, Callable[[], list[int]]] = {
    **{f"training {kind} of run {seed}": _training(seed, kind) for seed in _RUN_SEEDS for kind in _KINDS},
    **{f"evaluation {kind} on {split}": _evaluation(split, kind) for split in Split for kind in _KINDS},
    **{f"tournament {kind} of run {seed}": _tournament(seed, kind) for seed in (0, 1) for kind in _KINDS},
    **{
        f"demonstrations of recipe {recipe.number}": _demonstrations(recipe)
        for phase in (*phases(1.0), *words_phases(1.0))
        for recipe in phase.recipes
    },
    "games that a game's model learns from": lambda: [seed for n in range(_COUNT) for seed in game_seeds(n)],
    "turns of an episode": lambda: [
        seed_of(Stream.TURN_SAMPLING, seed, turn) for seed in range(_COUNT // 5) for turn in range(5)
    ],
    "chance inside an episode": lambda: [chance_seed(seed) for seed in range(_COUNT)],
}


def test_no_two_uses_share_a_seed_and_none_uses_one_twice() -> None:
    seeds = {name: use() for name, use in USES.items()}
    for name, found in seeds.items():
        assert len(found) >= _COUNT // 4, name
        assert len(set(found)) == len(found), name
        assert all(0 <= seed < 2**63 for seed in found), name
    for one, other in combinations(seeds, 2):
        assert not set(seeds[one]) & set(seeds[other]), (one, other)


@given(st.integers(0, 2**70), st.integers(0, 2**70))
def test_runs_with_different_seeds_draw_from_different_blocks(one: int, other: int) -> None:
    if one != other:
        assert abs(block_of(Stream.TRAINING_INSTANCES, one) - block_of(Stream.TRAINING_INSTANCES, other)) >= BLOCK


@pytest.mark.parametrize("stream", list(Stream))
def test_a_stream_depends_on_its_name_and_every_word(stream: Stream) -> None:
    here = {seed_of(stream, 1, 2), seed_of(stream, 2, 1), seed_of(stream, 1), seed_of(stream, 1, 0)}
    here |= {seed_of(stream, 1 + 2**33), seed_of(stream, 1, 2, 0), seed_of(stream), seed_of(stream, 0)}
    assert len(here) == 8
    assert not here & {seed_of(other, 1, 2) for other in Stream if other is not stream}
    drawn = generator(stream, 1, 2).integers(2**60, size=4).tolist()
    assert drawn == generator(stream, 1, 2).integers(2**60, size=4).tolist()
    assert drawn != generator(stream, 1, 3).integers(2**60, size=4).tolist()


def test_members_of_a_group_share_the_instance_and_neither_outcome_nor_sampling_seed() -> None:
    specs = training_specs(3, first_group=5, num_groups=6, group_size=8)
    for kind, distinct in (("env_seed", 6), ("outcome_seed", 48), ("sampling_seed", 48)):
        assert len({getattr(spec, kind) for spec in specs}) == distinct, kind
    for group in {spec.group_id for spec in specs}:
        members = [spec for spec in specs if spec.group_id == group]
        assert len({spec.outcome_seed for spec in members}) == 8
        assert len({spec.sampling_seed for spec in members}) == 8
        assert len({spec.env_seed for spec in members}) == 1


def test_a_pool_of_instances_is_gone_through_evenly() -> None:
    """Training seeds are consecutive, so that seed modulo pool size takes every instance as often as another."""
    specs = training_specs(1, first_group=3, num_groups=12, group_size=1)
    assert sorted(spec.env_seed % 4 for spec in specs) == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]


def test_an_evaluation_plays_the_instances_that_their_numbers_name() -> None:
    specs = evaluation_specs("val", [0, 3, 4])
    assert [spec.group_id for spec in specs] == ["val-0", "val-3", "val-4"]
    assert [spec.env_seed for spec in specs] == [instance_seed("val", number) for number in (0, 3, 4)]
    with pytest.raises(ValueError, match=r"'dev'.*train, val, test"):
        instance_seed("dev", 0)


def test_all_streams_are_named_in_one_place() -> None:
    """Nobody makes a seed sequence, or a generator from a list of numbers, of their own."""
    root = Path(rllib_ragen.__file__).parent
    for path in [*root.rglob("*.py"), *(root.parent / "envs").rglob("*.py")]:
        if path.name == "seeds.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name = ast.unparse(node.func)
            assert not name.endswith("SeedSequence"), path
            assert not (name.endswith("default_rng") and node.args and isinstance(node.args[0], ast.List)), path
