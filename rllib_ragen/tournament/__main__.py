"""A tournament of models, checkpoints and scripted players in a game, with ratings:

python -m rllib_ragen.tournament results/RUN/checkpoints/* --env kuhn_poker --plays 200
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragen_envs.games.baselines import best_script
from ragen_envs.games.env import TextGameEnv
from ragen_envs.games.game import TextGame
from ragen_envs.games.limits import GameLimits
from ragen_envs.games.players import PLAYERS
from ragen_envs.games.registry import game_names, make_game
from ragen_envs.tree import Tree
from rllib_ragen.config.command_line import make_parser, path_option, positive, read_layers, run_command
from rllib_ragen.config.environments import environments_told
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.load import flatten, foundation, merge, parse_config
from rllib_ragen.config.paths import EMBEDDED_MODEL
from rllib_ragen.config.schema import ModelSection, RunConfig
from rllib_ragen.config.task_names import game_name, task_name
from rllib_ragen.faults.ending import leave
from rllib_ragen.faults.exit_codes import NothingPlayed
from rllib_ragen.faults.watchdog import Watchdog, on_stderr
from rllib_ragen.models.folder import check_model_folder
from rllib_ragen.models.quiet_libraries import quieten
from rllib_ragen.models.tiny.run_model import ensure_run_model
from rllib_ragen.starpo.checks.build_config import build_config
from rllib_ragen.starpo.checks.games import plays
from rllib_ragen.tournament.reply_limits import ReplyLimits

if TYPE_CHECKING:
    from rllib_ragen.rollout.conversation import Sampler
    from rllib_ragen.tournament.elo import Rating
    from rllib_ragen.tournament.match_session import Record
    from rllib_ragen.tournament.model_sources import ModelSource

RANDOM = "uniform"
"""Name of the player that ratings are relative to."""
_FORMAT = 1
"""Number of the JSON file's layout."""
_PIPE_WIDTH = 150
"""Columns of tables without a terminal: chosen freely, for the widest table."""


@dataclass(frozen=True)
class Plan:
    """The games and players of a tournament."""

    game: str
    config: RunConfig
    models: list[ModelSource]
    scripts: list[str]
    plays: int
    temperature: float

    @property
    def limits(self) -> GameLimits:
        """Limits of the game's episodes."""
        return self.config.game_limits()

    @property
    def replies(self) -> ReplyLimits:
        """Sampling settings of replies."""
        rollout = self.config.rollout
        return ReplyLimits(
            rollout.max_reply_tokens, rollout.max_context_tokens, self.temperature, rollout.top_p, rollout.top_k
        )

    def make_env(self) -> TextGameEnv:
        """Makes a table: an environment for one game at a time."""
        return TextGameEnv(make_game(self.game, **self.config.env.task), self.limits)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command → its exit code: 0 done, 2 bad input."""
    options = parse(arguments)

    def work() -> None:
        try:
            plan = make_plan(options)
            if options.out.exists() and not options.force:
                raise ConfigError(f"--out: {options.out} exists already; give --force to replace it")
            fault = plan.config.fault
            with Watchdog(on_stderr, report_after_s=fault.report_after_s, hang_timeout_s=fault.hang_timeout_s):
                report = hold(plan)
        except ValueError as error:
            raise ConfigError(str(error)) from error
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"written to {options.out}")

    return run_command(work, keys=options.keys)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parses the command line."""
    parser = make_parser(
        "tournament",
        "Every two of the models and scripted players play a game in both seats; prints results, ratings and, in small "
        "games, exploitability.",
        ("--env", "--seed"),
    )
    add = parser.add_argument
    add("models", metavar="CHECKPOINT", nargs="*", help="tiny, a model, run or checkpoint folder, or CHECKPOINT/POLICY")
    add("--plays", metavar="N", type=positive, default=100, help="games of each pair in each order of seats [100]")
    add("--scripts", metavar="WORD", nargs="*", help="scripted players beside uniform [the best one of the game]")
    add("--greedy", action="store_true", help="the models' likeliest replies instead of sampled ones")
    add(
        "--out",
        metavar="FILE",
        type=path_option,
        default=Path("tournament.json"),
        help="where the JSON goes [tournament.json]",
    )
    add("--force", action="store_true", help="replace FILE if it exists")
    return parser.parse_args(arguments)


def make_plan(options: argparse.Namespace) -> Plan:
    """Plans the tournament, with the settings of the first model's run if that played this game; options win.

    Raises:
        ConfigError: whatever is wrong, in one sentence.
    """
    from rllib_ragen.tournament.model_sources import find_models

    given = merge(*read_layers(options))
    models = find_models(options.models)
    run = models[0].config if models else None
    saved = None if run is None else build_config(run)
    asked = flatten(given).get("env.name") or (environments_told(saved) if saved else None)
    try:
        game = game_name(task_name(str(asked or RunConfig().env.name)))
    except ValueError as error:
        raise ConfigError(f"env.name: {error}") from None
    if game is None:
        raise ConfigError(f"env.name is {asked!r}; allowed here are games: {', '.join(game_names())}")
    path = {"model": {"path": options.models[0] if models else EMBEDDED_MODEL}}
    if saved is not None and not saved.envs and saved.env.name == game:
        # Whether prompts are brief follows from the model's name, which is another one from now on.
        config = build_config(saved.model_dump(), {"env": {"prompt_style": saved.prompt_style}}, given, path)
    else:
        config = build_config(foundation(given, {"env": {"name": game}}), given, path)
    if models and config.rollout.engine == "vllm":
        raise ConfigError("rollout.engine=vllm: models play here with the hf engine; allowed: auto, hf")
    try:
        table = make_game(game, **config.env.task)
        if len(table.seats) != 2:
            raise ConfigError(f"env.name: {game} has {len(table.seats)} seats here; tournaments are for two")
        scripts = _scripts(options, game, table)
        if alike := [one.name for one in models if one.name in scripts]:
            raise ConfigError(f"{alike[0]!r} names a model's folder and a scripted player: rename the folder")
        return Plan(game, config, [_ready(one, config) for one in models], scripts, options.plays,
                    0.0 if options.greedy else config.rollout.temperature)  # fmt: skip
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _scripts(options: argparse.Namespace, game: str, table: TextGame) -> list[str]:
    best = best_script(game)
    asked: list[str] = ([best] if best else []) if options.scripts is None else options.scripts
    if unknown := [name for name in asked if name not in PLAYERS]:
        raise ConfigError(f"--scripts: there is no player {unknown[0]!r}; allowed: {', '.join(PLAYERS)}")
    if unable := [name for name in asked if not plays(name, table)]:
        able = [name for name in PLAYERS if plays(name, table)]
        raise ConfigError(f"--scripts: {unable[0]} cannot play {table.title}; allowed: {', '.join(able)}")
    return list(dict.fromkeys([RANDOM, *asked]))


def _ready(source: ModelSource, config: RunConfig) -> ModelSource:
    """Checks a source → the source, with the small model of the game for `tiny`."""
    if source.name == EMBEDDED_MODEL:
        tiny = config.model_copy(update={"model": config.model.model_copy(update={"path": EMBEDDED_MODEL})})
        source = replace(source, folder=ensure_run_model(tiny))
    own = config if source.config is None else parse_config(source.config)
    source = replace(source, reply_prefix=own.env.reply_prefix, template_kwargs=own.model.template_kwargs)
    length = config.rollout.max_context_tokens
    check_model_folder(str(source.folder), length)
    from rllib_ragen.starpo.checks.model import check_model_and_chat

    section = ModelSection(path=str(source.folder), template_kwargs=source.template_kwargs)
    check_model_and_chat(
        source.folder, section, max_context_tokens=length, reply_prefix=source.reply_prefix, think=config.env.think
    )
    return source


def hold(plan: Plan) -> Tree:
    """Plays the tournament and prints the results → the contents of the JSON file."""
    from rich.console import Console

    from rllib_ragen.tournament.matches import play_all, round_robin
    from rllib_ragen.tournament.standings import (
        exploited,
        print_ratings,
        print_results,
        ratings,
        scripts_exploited,
        seat_results,
    )

    console = Console(highlight=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH)
    game = plan.make_env().game
    models = [source.name for source in plan.models]
    names = [*models, *plan.scripts]
    fixtures = round_robin(names, game, plan.plays, plan.config.seed)
    console.print(f"{plan.game}: {len(names)} players, {len(fixtures)} games", markup=False)
    records = play_all(
        fixtures,
        _load(plan),
        plan.make_env,
        env_timeout_s=plan.config.rollout.env_timeout_s,
        progress=_progress(len(fixtures)),
    )
    if failed := [record for record in records if record.error]:
        told = f"{len(failed)} of {len(records)} games failed; the first: {failed[0].error}"
        if len(failed) == len(records):
            raise NothingPlayed(told)
        console.print(f"{told}\nThey count for nobody.", markup=False)
    results = seat_results(records, game)
    leaks = {name: scripts_exploited(plan.game, PLAYERS[name]) for name in plan.scripts}
    leaks |= {name: exploited(records, game, plan.game, name) for name in models}
    print_results(console, results, models or names)
    found: dict[str, Rating] = {}
    if not game.cooperative:
        try:
            found = ratings(records, game, RANDOM)
            print_ratings(console, found, RANDOM, leaks)
        except ValueError as error:  # nearly all games were cut off
            console.print(f"no ratings: {error}", markup=False)
    return _report(plan, records, {
        "results": [asdict(one) for one in results],
        "elo": {name: asdict(rating) for name, rating in found.items()},
        "exploitability": {name: asdict(leak) for name, leak in leaks.items() if leak},
    })  # fmt: skip


def _report(plan: Plan, records: Sequence[Record], found: Mapping[str, Any]) -> Tree:
    return {
        "format": _FORMAT,
        "game": plan.game,
        "task": plan.config.env.task,
        "limits": asdict(plan.limits),
        "replies": asdict(plan.replies),
        "plays": plan.plays,
        "seed": plan.config.seed,
        "games": len(records),
        "errors": [record.error for record in records if record.error],
        "models": {source.name: str(source.adapter or source.folder) for source in plan.models},
        **found,
    }


def _load(plan: Plan) -> dict[str, Sampler]:
    """Loads the models, by name."""
    if not plan.models:
        return {}
    from rllib_ragen.tournament.model_player import load_player

    quieten()
    return {source.name: load_player(source, plan.replies) for source in plan.models}


def _progress(total: int) -> Callable[[int], None]:
    """Returns a function that prints the progress, about twenty times."""
    every = max(1, total // 20)

    def told(done: int) -> None:
        if sys.stderr.isatty() and done % every == 0:
            print(f"\r{done}/{total} games", end="" if done < total else "\n", file=sys.stderr, flush=True)

    return told


if __name__ == "__main__":
    leave(main)
