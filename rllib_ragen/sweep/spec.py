"""The specification of a sweep: a base config, a space over its keys, and a search method. One YAML file."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from optuna.distributions import CategoricalDistribution
from pydantic import Field, ValidationError

from ragen_envs.tree import Tree
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.load import foundation, merge
from rllib_ragen.config.messages import sentence
from rllib_ragen.config.paths import ENTERED_KEYS, enter_path, enter_paths, enter_value, leave_paths, leave_value
from rllib_ragen.config.schema import MAX_SEED, RunConfig, Seed
from rllib_ragen.config.section import MOST, Section
from rllib_ragen.config.yaml_text import dump_yaml
from rllib_ragen.starpo.checks.build_config import build_config
from rllib_ragen.sweep.space import Dimension, known_keys, read_space

Objective = Literal["success", "success_greedy", "return", "reply_tokens"]
MINIMISED: tuple[Objective, ...] = ("reply_tokens",)
SMOKE: Tree = {
    "iterations": 2,
    "checkpoint_interval": 1,
    "rollout": {"num_groups": 4},
    "eval": {"interval": 1, "num_instances": 8, "num_test_instances": 0},
}
"""Settings of --smoke, over the base config: a test that the sweep runs."""
CHECKED_COMBINATIONS = 256
"""Most combinations that are checked before a sweep starts: chosen freely; larger grids are checked at their edges."""
_EXCHANGEABLE = ("learner.", "credit.", "rollout.")
_FIXED = (
    *("credit.estimator", "learner.lora_rank", "learner.lora_alpha", "learner.lora_targets", "learner.num_learners"),
    *("learner.num_gpus_per_learner", "rollout.engine", "rollout.num_env_runners", "rollout.num_gpus_per_env_runner"),
)
"""Keys that weights, moments and resources depend on: a run cannot continue with another value."""


class SweepSpec(Section):
    """The schema of a sweep file."""

    name: str = Field(pattern=r"^\w[\w.-]*$", description="study's and folder's name")
    question: str = Field("", description="what the sweep is to answer, for people")
    base: Tree = Field(default_factory=dict, description="config of every run, over its environment's preset")
    space: Tree = Field(default_factory=dict, description="what varies: key → choice, uniform, …")
    sampler: Literal["tpe", "random", "grid", "cmaes"] = Field("tpe", description="who chooses")
    scheduler: Literal["none", "asha", "median", "pbt", "pb2"] = Field(
        "none", description="who stops hopeless runs early, or (pbt, pb2) lets them go on from the best ones' weights"
    )
    grace_iterations: int = Field(
        10, ge=1, le=MOST, description="iterations before a scheduler may stop or replace a run"
    )
    exchange_iterations: int = Field(10, ge=1, le=MOST, description="pbt, pb2: iterations between exchanges of weights")
    trials: int = Field(20, ge=1, le=1_000_000, description="configurations; of a grid at most all")
    seeds: list[Seed] = Field(
        default=[0], min_length=1, description="runs of each configuration; one trial of Optuna's"
    )
    objectives: list[Objective] = Field(
        default=["success"], min_length=1, description="validation numbers; reply_tokens is to be small"
    )
    max_concurrent: int | None = Field(
        None, ge=1, le=1_000_000, description="runs at a time; null: as many as resources allow"
    )
    retries: int = Field(1, ge=0, le=1_000, description="how often a crashed run goes on from its checkpoint")

    def dimensions(self) -> dict[str, Dimension]:
        """Returns the space. Raises ConfigError if it makes no sense."""
        return read_space(self.space, known_keys())

    def combinations(self) -> list[Tree]:
        """Returns all combinations of the dimensions' `samples`: the grid, if all are choices."""
        dimensions = self.dimensions()
        everything = itertools.product(*(dimension.samples() for dimension in dimensions.values()))
        return [dict(zip(dimensions, values, strict=True)) for values in everything]

    def first_config(self) -> RunConfig:
        """Returns the config of one combination, as an example of the resources of a run."""
        first = {name: dimension.samples()[0] for name, dimension in self.dimensions().items()}
        return self.config(first, self.seeds[0])

    @property
    def is_population(self) -> bool:
        """Whether runs are members of a population, which exchange weights."""
        return self.scheduler in ("pbt", "pb2")

    @property
    def num_trials(self) -> int:
        """Number of configurations of the sweep."""
        return min(self.trials, len(self.combinations())) if self.sampler == "grid" else self.trials

    def config(self, values: Mapping[str, object], seed: int) -> RunConfig:
        """Returns the config of one run.

        Args:
            values: value of every dimension, by its name.
            seed: seed of the run.

        Raises:
            ConfigError: these values do not fit together.
        """
        dimensions = self.dimensions()
        settings = merge(self.base, *(dimensions[name].settings(value) for name, value in values.items()))
        return build_config(foundation(settings), settings, {"seed": seed})


def read_sweep(tree: Mapping[str, object], folder: Path | None = None, *, smoke: bool = False) -> SweepSpec:
    """Reads and checks a sweep.

    Args:
        tree: contents of the sweep file.
        folder: folder of the file, for relative paths; None: the working directory.
        smoke: whether to use the settings of --smoke.

    Raises:
        ConfigError: one sentence that names the key.
    """
    try:
        spec = SweepSpec.model_validate(dict(tree))
    except ValidationError as error:
        raise ConfigError(sentence(error, SweepSpec)) from None
    place = enter_path(folder or ".")
    spec.base = enter_paths(spec.base, place)
    spec.space = {name: _with_paths(name, given, partial(_entered, place)) for name, given in spec.space.items()}
    if smoke:
        spec = spec.model_copy(update={"base": merge(spec.base, SMOKE), "trials": min(spec.trials, 2)})
        spec.seeds, spec.grace_iterations, spec.exchange_iterations = spec.seeds[:1], 1, 1
    _check_search(spec)
    if spec.is_population:
        check_population(spec)
    for values in spec.combinations()[:CHECKED_COMBINATIONS]:
        try:
            config = spec.config(values, spec.seeds[0])
        except ConfigError as error:
            raise ConfigError(f"with {told(values)}: {error}") from None
        if config.eval.interval == 0:
            raise ConfigError("eval.interval=0: a sweep compares validations; allowed: ≥ 1")
    return spec


def save_sweep(spec: SweepSpec, path: Path) -> None:
    """Writes the sweep as YAML for `read_sweep`; paths that move along with the file's folder are relative to it."""
    folder = enter_path(path.parent)
    tree = spec.model_dump(mode="json")
    space = {name: _with_paths(name, given, partial(_left, folder)) for name, given in spec.space.items()}
    tree |= {"base": leave_paths(spec.base, folder, folder), "space": space}
    path.write_text(dump_yaml(tree), encoding="utf-8")


def _with_paths(name: str, given: object, change: Callable[[str, object], object]) -> object:
    """Returns a dimension of the space with `change(key, choice)` in place of each choice that may hold a path."""
    keys = [key.strip() for key in name.split(",")]
    holds = isinstance(given, Mapping) and isinstance(given.get("choice"), list) and set(keys) & set(ENTERED_KEYS)
    if not holds or not isinstance(given, Mapping):
        return given

    def changed(key: str, value: object) -> object:
        return change(key, value) if key in ENTERED_KEYS else value

    def choice(value: object) -> object:
        if len(keys) == 1:
            return changed(keys[0], value)
        if not isinstance(value, list) or len(value) != len(keys):
            return value
        return [changed(key, one) for key, one in zip(keys, value, strict=True)]

    return {**given, "choice": [choice(value) for value in given["choice"]]}


def _entered(folder: Path, key: str, given: object) -> object:
    return enter_value(key, given, folder)


def _left(folder: Path, key: str, given: object) -> object:
    return leave_value(key, given, folder, folder)


def _check_search(spec: SweepSpec) -> None:
    dimensions = spec.dimensions()
    if len(set(spec.seeds)) < len(spec.seeds):
        raise ConfigError(f"seeds: {spec.seeds} holds one twice")
    if spec.scheduler != "none" and len(spec.objectives) > 1:
        raise ConfigError(f"scheduler={spec.scheduler} compares one objective; allowed with several: none")
    plain = {name for name, d in dimensions.items() if isinstance(d.distribution, CategoricalDistribution)}
    if spec.sampler == "grid" and (others := sorted(dimensions.keys() - plain)):
        raise ConfigError(f"sampler=grid cannot enumerate space.{others[0]}; allowed there: choice")
    if spec.sampler == "cmaes":
        if plain:
            raise ConfigError(
                f"sampler=cmaes cannot search space.{min(plain)}: allowed there: uniform, loguniform, int"
            )
        if len(spec.objectives) > 1:
            raise ConfigError("sampler=cmaes has one objective; allowed with several: tpe, random, grid")
        if find_spec("cmaes") is None:
            raise ConfigError("sampler=cmaes needs the package cmaes (pip install 'rllib_ragen[cmaes]')")


def check_population(spec: SweepSpec) -> None:
    """Raises ConfigError if the members of a population could not go on from each other's weights."""
    who = f"scheduler={spec.scheduler}"
    if spec.sampler != "random":
        raise ConfigError(f"sampler={spec.sampler} with {who}, which chooses values itself; allowed: random, its start")
    if len(spec.seeds) > 1:
        raise ConfigError(f"seeds: {spec.seeds} with {who}, whose members have a seed each; allowed: the first one's")
    if spec.max_concurrent is not None:
        raise ConfigError(f"max_concurrent={spec.max_concurrent} with {who}: members take turns; allowed: null")
    if spec.trials < 2:
        raise ConfigError(f"trials={spec.trials} with {who}: a population has ≥ 2 members")
    if spec.seeds[0] + spec.trials > MAX_SEED:
        raise ConfigError(f"seeds: {spec.seeds} with {who}, whose members count up from it; allowed: below {MAX_SEED}")
    for name, dimension in spec.dimensions().items():
        for key in dimension.keys:
            if not key.startswith(_EXCHANGEABLE) or key in _FIXED:
                raise ConfigError(
                    f"space.{name}: {key} cannot change while a run goes on, as {who} does; allowed: keys of learner,"
                    f" credit and rollout but {', '.join(_FIXED)}"
                )
        if spec.scheduler == "pb2" and isinstance(dimension.distribution, CategoricalDistribution):
            raise ConfigError(f"space.{name}: scheduler=pb2 needs numbers to fit; allowed: uniform, loguniform, int")
    if spec.scheduler == "pb2" and find_spec("sklearn") is None:
        raise ConfigError("scheduler=pb2 needs the package scikit-learn (pip install 'rllib_ragen[pb2]')")
    interval = spec.first_config().eval.interval
    if interval and spec.exchange_iterations % interval:
        raise ConfigError(
            f"exchange_iterations={spec.exchange_iterations} with {who}: weights are exchanged after validations;"
            f" allowed: multiples of eval.interval={interval}"
        )


def told(values: Mapping[str, object]) -> str:
    """Formats a configuration: `learner.lr=0.001, credit.estimator=grpo`."""
    return ", ".join(f"{name}={value}" for name, value in values.items())
