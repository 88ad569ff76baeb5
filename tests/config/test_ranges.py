"""Every number in a config has a range, and what is beyond it is one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from types import NoneType
from typing import Annotated, Any, get_args, get_origin

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.load import parse_assignments, parse_config
from rllib_ragen.config.schema import MAX_SEED, RunConfig
from rllib_ragen.sweep.spec import SweepSpec, read_sweep


def numbers(schema: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, list[Any]]]:
    """(key, what pydantic knows of its range) of every number in a schema, those in lists too."""
    for name, field in schema.model_fields.items():
        annotation = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield from numbers(annotation, f"{prefix}{name}.")
            continue
        for kind, info in inner(annotation, field):
            if kind in (int, float):
                yield f"{prefix}{name}", info.metadata


def inner(annotation: Any, field: FieldInfo) -> Iterator[tuple[Any, FieldInfo]]:
    if get_origin(annotation) is Annotated:
        yield get_args(annotation)[0], get_args(annotation)[1]
    elif get_args(annotation):
        for part in get_args(annotation):
            if part is not NoneType:
                yield from inner(part, field)
    else:
        yield annotation, field


RANGES = [*numbers(RunConfig), *numbers(SweepSpec, "sweep.")]


@pytest.mark.parametrize(("key", "metadata"), RANGES, ids=[key for key, _ in RANGES])
def test_every_number_has_both_bounds(key: str, metadata: list[Any]) -> None:
    bounds = {name for one in metadata for name in ("ge", "gt", "le", "lt") if hasattr(one, name)}
    assert bounds & {"ge", "gt"} and bounds & {"le", "lt"}, key


def test_the_search_finds_numbers_in_sections_lists_and_unions() -> None:
    keys = [key for key, _ in RANGES]
    assert {"seed", "learner.betas", "learner.clip_dual", "fault.max_runner_gib", "sweep.seeds"} <= set(keys)
    assert len(keys) > 70


@pytest.mark.parametrize(
    "assignment",
    [
        *(f"seed={seed}" for seed in (-1, 2**31, 2**32, 2**64, 2**64 + 1, 10**400, 0.5, "yes", "1e3x")),
        *("learner.betas=[1.5, 2]", "learner.betas=[0.9, 1]", "learner.betas=[-0.1, 0.9]", "learner.betas=[true, 0.9]"),
        *("learner.betas=['0.9', 0.9]", "learner.betas=0.9", "learner.betas=[0.9, 0.9, 0.9]", "learner.betas=[]"),
        *("rollout.timeout_s=1e300", "rollout.temperature=1e-300", "learner.adam_eps=1e-300", "learner.lr=1e300"),
        *("rollout.num_env_runners=1e9", "learner.torch_threads=1000000000", "token_limit=1e400"),
        *("env.format_penalty=-1e300", "eval.num_test_instances=99999999999999999999"),
    ],
)
def test_what_is_out_of_range_is_one_sentence_with_the_key(assignment: str) -> None:
    with pytest.raises(ConfigError, match=f"^{assignment.split('=')[0]}: must be ") as caught:
        parse_config(parse_assignments([assignment]))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("seeds", [[-1], [2**64], [0, 2**32], [True], ["1"]])
def test_seeds_of_a_sweep_are_seeds(seeds: list[Any]) -> None:
    with pytest.raises(ConfigError, match=f"^seeds: must be a list, each an integer ≥ 0 and ≤ {MAX_SEED}"):
        read_sweep({"name": "x", "space": {"learner.lr": {"choice": [1e-4]}}, "seeds": seeds})


def test_the_largest_seed_is_taken() -> None:
    assert parse_config({"seed": MAX_SEED}).seed == MAX_SEED
