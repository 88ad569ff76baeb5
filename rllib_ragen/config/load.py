"""Reads a run's config: defaults < environment's or paper's settings < YAML file < algorithm's < flags < `--set`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ragen_envs.presets import PAPER_ENVS, PAPER_PRESETS
from ragen_envs.presets import preset as env_preset
from ragen_envs.tree import Tree
from rllib_ragen.config.errors import ConfigError, nearest
from rllib_ragen.config.messages import sentence
from rllib_ragen.config.paths import enter_path, enter_paths, leave_paths
from rllib_ragen.config.presets import algorithm_file, algorithm_names, env_file, game_defaults, paper_file
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.config.task_names import game_name, task_name
from rllib_ragen.config.yaml_text import YAMLError, dump_yaml, parse_yaml


def parse_config(*layers: Mapping[str, object]) -> RunConfig:
    """Returns the config of `layers`, nested mappings of which later ones win key by key, without the checks of
    combinations.

    Raises:
        ConfigError: an unknown key, a value out of range, or both `env` and `envs`.
    """
    tree = merge(*layers)
    if tree.get("envs") and "env" in tree:
        raise ConfigError(
            "env and envs are both given, and exclude each other: say everything about the environments in envs, or"
            " leave it out for the one of env"
        )
    try:
        return RunConfig.model_validate(tree)
    except ValidationError as error:
        raise ConfigError(sentence(error)) from None


def merge(*layers: Mapping[str, Any]) -> Tree:
    """Merges nested mappings into a new one; later ones win."""
    merged: Tree = {}
    for layer in layers:
        for key, value in layer.items():
            both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
            merged[key] = merge(merged[key], value) if both else value
    return merged


def read_yaml(path: Path) -> Tree:
    """Returns the mapping in a YAML file, with its paths as `paths.enter_path` reads them; an empty one for an empty
    file.

    Raises:
        ConfigError: no such file, not YAML, or no mapping.
    """
    try:
        tree = parse_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"config file {path}: {error.strerror}") from None
    except (YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"config file {path} is not YAML: {_one_line(error)}") from None
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise ConfigError(f"config file {path} must hold a mapping of keys to values, not {tree!r}")
    return enter_paths(tree, path.parent)


def preset(env_name: str) -> Tree:
    """Returns the shipped settings of an environment (tune_configs/<name>.yaml).

    For a game: tune_configs/games/defaults.yaml, overridden by the game's own (tune_configs/games/<name>.yaml).

    Raises:
        ConfigError: unknown environment.
    """
    try:
        name = task_name(env_name)
    except ValueError as error:
        raise ConfigError(f"env.name: {error}") from None
    files = [env_file(name)] if game_name(name) is None else [game_defaults(), env_file(f"games/{name}")]
    return merge({"env": {"name": name}}, *(parse_yaml(f.read_text(encoding="utf-8")) for f in files if f.is_file()))


def foundation(*given: Mapping[str, Any]) -> Tree:
    """Returns what lies beneath the layers `given`: the settings of the paper that they name (`preset`), or those that
    ship for their environment. Several environments (`envs`) say everything about themselves: beneath them lies the
    paper's rest, or nothing.

    Raises:
        ConfigError: unknown environment or preset.
    """
    said = merge(*given)
    paper = said.get("preset")
    if said.get("envs"):
        return {} if paper is None else _paper_settings(paper)
    env_name = str(flatten(said).get("env.name", RunConfig().env.name))
    return preset(env_name) if paper is None else paper_preset(paper, env_name)


def paper_preset(paper: object, env_name: str) -> Tree:
    """Returns a paper's settings for an environment: tune_configs/presets/<paper>.yaml, and of the environments that
    the paper has task and caps (`ragen_envs.presets`). Others keep their own, and all a game's seats.

    Raises:
        ConfigError: unknown environment or preset.
    """
    tree, own = _paper_settings(paper), preset(env_name)
    name = own["env"]["name"]
    kept: Tree = {key: own[key] for key in ("env", "multi_agent") if key in own}
    if name in PAPER_ENVS:
        task, limits = env_preset(name, str(paper))
        kept["env"] = {"name": name, "task": task, **limits}
    return merge(tree, kept)


def _paper_settings(paper: object) -> Tree:
    """Returns what a paper says of every environment. Raises ConfigError for an unknown one."""
    if paper not in PAPER_PRESETS:
        raise ConfigError(f"preset: unknown {paper!r}; {nearest(str(paper), list(PAPER_PRESETS))}")
    return merge({"preset": paper}, parse_yaml(paper_file(str(paper)).read_text(encoding="utf-8")))


def algorithm_preset(name: str) -> Tree:
    """Returns the settings of an algorithm (tune_configs/algorithms/<name>.yaml).

    Raises:
        ConfigError: unknown algorithm.
    """
    if name not in algorithm_names():
        raise ConfigError(f"--algorithm: unknown {name!r}; {nearest(name, algorithm_names())}")
    tree = parse_yaml(algorithm_file(name).read_text(encoding="utf-8"))
    assert isinstance(tree, dict)
    return tree


def parse_assignments(assignments: Sequence[str]) -> Tree:
    """Parses `["learner.lr=1e-4"]` into `{"learner": {"lr": 1e-4}}`; values are YAML, later ones win.

    Raises:
        ConfigError: no `=`, an empty key, or a value that is not YAML.
    """
    tree: Tree = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals or not all(key.split(".")):
            raise ConfigError(f"--set {assignment}: must be key=value, as in learner.lr=1e-4")
        try:
            tree = merge(tree, nest(key, parse_yaml(text)))
        except YAMLError as error:
            raise ConfigError(f"--set {assignment}: the value is not YAML: {_one_line(error)}") from None
    return tree


def nest(key: str, value: object) -> Tree:
    """Makes a nested mapping of a dotted key: `("a.b", 1)` → `{"a": {"b": 1}}`."""
    *sections, last = key.split(".")
    tree: Tree = {last: value}
    for section in reversed(sections):
        tree = {section: tree}
    return tree


def flatten(tree: Mapping[str, Any], prefix: str = "") -> Tree:
    """Returns `{"a": {"b": 1}}` → `{"a.b": 1}`; empty mappings are values, and so are lists but those of mappings:
    `{"a": [{"b": 1}]}` → `{"a[0].b": 1}`.
    """
    flat: Tree = {}
    for key, value in tree.items():
        if isinstance(value, list) and value and all(isinstance(one, Mapping) and one for one in value):
            for number, one in enumerate(value):
                flat.update(flatten(one, f"{prefix}{key}[{number}]."))
            continue
        inner = isinstance(value, Mapping) and value
        flat.update(flatten(value, f"{prefix}{key}.") if inner else {f"{prefix}{key}": value})
    return flat


def flat_config(tree: Mapping[str, Any]) -> Tree:
    """Returns `flatten` of a config's mapping, but for `rewards`, which is one value."""
    whole = {key: tree[key] for key in ("rewards",) if key in tree}
    return flatten({key: value for key, value in tree.items() if key not in whole}) | whole


def save_config(config: RunConfig, path: Path, *, without: Sequence[str] = ()) -> None:
    """Writes the resolved config, without the keys `without`, as YAML that `--config` reads.

    Paths that move along with the file's folder are written relative to it.
    """
    tree = {key: value for key, value in config.model_dump(mode="json").items() if key not in without}
    folder = enter_path(path.parent)
    path.write_text(dump_yaml(leave_paths(tree, folder, folder)), encoding="utf-8")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
