"""Lets models, checkpoints and scripted players play each other in a game, and rates them:

python -m rllib_ragen.tournament results/RUN/checkpoints/* --env kuhn_poker --plays 200
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envs.games.env import TextGameEnv
from envs.games.limits import GameLimits
from envs.games.players import PLAYERS, STRONGEST
from envs.games.registry import game_names, make_game
from rllib_ragen.cli import Parser
from rllib_ragen.config import EMBEDDED_MODEL
from rllib_ragen.config_checks import ConfigError
from rllib_ragen.config_load import parse_assignments
from rllib_ragen.run import BAD_INPUT

if TYPE_CHECKING:
    from rllib_ragen.arena.elo import Rating
    from rllib_ragen.arena.matches import Record
    from rllib_ragen.arena.players import ReplyLimits, TablePlayer
    from rllib_ragen.arena.sources import ModelSource

RANDOM = "uniform"
"""The player that ratings are relative to."""
_FORMAT = 1
_PIPE_WIDTH = 150
"""Columns of tables that no terminal shows."""


@dataclass(frozen=True)
class Plan:
    """What is to be played."""

    env: str
    task: dict[str, Any]
    limits: GameLimits
    replies: ReplyLimits
    models: list[ModelSource]
    scripts: list[str]
    plays: int
    seed: int

    def make_env(self) -> TextGameEnv:
        """A table."""
        return TextGameEnv(make_game(self.env, **self.task), self.limits)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; its exit code: 0 done, 2 bad input."""
    options = parse(arguments)
    try:
        plan = make_plan(options)
        if options.out.exists() and not options.force:
            raise ConfigError(f"--out: {options.out} exists already; give --force to replace it")
        report = hold(plan)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"written to {options.out}")
    except (ConfigError, ValueError) as error:
        print(f"rllib_ragen: {error}", file=sys.stderr)
        return BAD_INPUT
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = Parser(
        prog="python -m rllib_ragen.tournament",
        description="Every two of the models and scripted players play in both seats; prints results, ratings and, in "
        "small games, exploitability.",
        formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=28, width=140),
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("models", metavar="CHECKPOINT", nargs="*", help="tiny, a model, run or checkpoint folder, or CHECKPOINT/POLICY")
    add("--env", metavar="WORD", help=f"the game: {', '.join(game_names())} [as the first model's run]")
    add("--plays", metavar="N", type=_positive, default=100, help="games of each pair in each order of seats [100]")
    add("--seed", metavar="N", type=int, default=0, help="decides starts, luck and sampling [0]")
    add(
        "--scripts",
        metavar="WORD",
        nargs="*",
        help=f"scripted players: {', '.join(PLAYERS)} [uniform and the best one]",
    )
    add("--set", metavar="K=V", nargs="+", action="extend", default=[], dest="assignments",
        help="settings, as env.task.rounds=3, env.think=false, rollout.max_reply_tokens=200")  # fmt: skip
    add("--greedy", action="store_true", help="the models' likeliest replies instead of sampled ones")
    add(
        "--out",
        metavar="FILE",
        type=Path,
        default=Path("tournament.json"),
        help="where the JSON goes [tournament.json]",
    )
    add("--force", action="store_true", help="replace FILE if it exists")
    return parser.parse_args(arguments)


def make_plan(options: argparse.Namespace) -> Plan:
    """Settings are those of the run that the first model comes from, if it played this game; `--set` wins.

    Raises:
        ConfigError: whatever is wrong, in one sentence.
        ValueError: likewise, of a game's setting.
    """
    from rllib_ragen.arena.players import ReplyLimits

    given = parse_assignments(options.assignments)
    models = _models(options.models, 1)
    run = (models[0].settings or {}) if models else {}
    env = options.env or run.get("env", {}).get("name")
    if env not in game_names():
        raise ConfigError(f"--env is {env!r}; allowed: {', '.join(game_names())}")
    if run.get("env", {}).get("name") != env:
        run = {}
    _only(given, ("env", "rollout"), "--set")
    settings = {part: {**run.get(part, {}), **given.get(part, {})} for part in ("env", "rollout")}
    replies = _pick(ReplyLimits, settings["rollout"], given.get("rollout", {}), "rollout")
    if options.greedy:
        replies["temperature"] = 0.0
    limits = _limits(settings["env"], run.get("multi_agent", {}), given.get("env", {}), options.models)
    scripts = [RANDOM, STRONGEST.get(env, RANDOM)] if options.scripts is None else [RANDOM, *options.scripts]
    if unknown := [name for name in scripts if name not in PLAYERS]:
        raise ConfigError(f"--scripts: there is no player {unknown[0]!r}; allowed: {', '.join(PLAYERS)}")
    reply_limits = ReplyLimits(**replies)
    plan = Plan(
        env=env,
        task=settings["env"].get("task", {}),
        limits=limits,
        replies=reply_limits,
        models=_models(options.models, reply_limits.max_context_tokens),
        scripts=list(dict.fromkeys(scripts)),
        plays=options.plays,
        seed=options.seed,
    )
    plan.make_env()
    return plan


def hold(plan: Plan) -> dict[str, Any]:
    """Plays, prints, and returns what the JSON file holds."""
    from rich.console import Console

    from rllib_ragen.arena.matches import play_all, round_robin
    from rllib_ragen.arena.standings import (
        exploited,
        print_ratings,
        print_results,
        ratings,
        scripts_exploited,
        seat_results,
    )

    console = Console(highlight=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH)
    game = plan.make_env().game
    players = _players(plan)
    names = [player.name for player in players]
    fixtures = round_robin(names, game, plan.plays, plan.seed)
    console.print(f"{plan.env}: {len(names)} players, {len(fixtures)} games", markup=False)
    records = play_all(fixtures, players, plan.make_env, _progress(len(fixtures)))
    results = seat_results(records, game)
    models = [source.name for source in plan.models]
    leaks = {name: scripts_exploited(plan.env, PLAYERS[name]) for name in plan.scripts}
    leaks |= {name: exploited(records, game, plan.env, name) for name in models}
    print_results(console, results, models or names)
    found: dict[str, Rating] = {}
    if not game.cooperative:
        try:
            found = ratings(results, RANDOM)
            print_ratings(console, found, RANDOM, leaks)
        except ValueError as error:  # nearly all games were cut off
            console.print(f"no ratings: {error}", markup=False)
    return _report(plan, records, {
        "results": [asdict(one) for one in results],
        "elo": {name: asdict(rating) for name, rating in found.items()},
        "exploitability": {name: asdict(leak) for name, leak in leaks.items() if leak},
    })  # fmt: skip


def _report(plan: Plan, records: Sequence[Record], found: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "env": plan.env,
        "task": plan.task,
        "limits": asdict(plan.limits),
        "replies": asdict(plan.replies),
        "plays": plan.plays,
        "seed": plan.seed,
        "games": len(records),
        "models": {source.name: str(source.adapter or source.folder) for source in plan.models},
        **found,
    }


def _models(given: Sequence[str], max_context_tokens: int) -> list[ModelSource]:
    if not given:
        return []
    from rllib_ragen.arena.sources import find_models

    return find_models(given, max_context_tokens)


def _players(plan: Plan) -> list[TablePlayer]:
    from rllib_ragen.arena.players import ScriptedPlayer

    scripts: list[TablePlayer] = [ScriptedPlayer(name, PLAYERS[name], think=plan.limits.think) for name in plan.scripts]
    if not plan.models:
        return scripts
    from rllib_ragen.arena.model_player import ModelPlayer

    return [*(ModelPlayer.load(source, plan.replies) for source in plan.models), *scripts]


def _limits(
    env: Mapping[str, Any], table: Mapping[str, Any], given: Mapping[str, Any], models: Sequence[str]
) -> GameLimits:
    """GameLimits of a run's sections `env` and `multi_agent`; `env.format_penalty` is what an illegal move costs."""
    known = {field.name for field in fields(GameLimits)}
    _only(given, (*sorted(known), "task", "format_penalty"), "env")
    taken = {key: value for key, value in {**table, **env}.items() if key in known}
    if "format_penalty" in env:
        taken["illegal_reward"] = env["format_penalty"]
    if taken.get("prompt_style", "auto") == "auto":
        taken["prompt_style"] = "brief" if models and all(name == EMBEDDED_MODEL for name in models) else "full"
    return GameLimits(**taken)


def _pick(kind: type[Any], settings: Mapping[str, Any], given: Mapping[str, Any], section: str) -> dict[str, Any]:
    known = [field.name for field in fields(kind)]
    _only(given, known, section)
    return {key: settings[key] for key in known if key in settings}


def _only(given: Mapping[str, Any], allowed: Sequence[str], where: str) -> None:
    for key in given:
        if key not in allowed:
            raise ConfigError(f"{where} has no setting {key!r}; allowed: {', '.join(allowed)}")


def _progress(total: int) -> Any:
    """Tells the terminal how far it is, about twenty times."""
    every = max(1, total // 20)

    def told(done: int) -> None:
        if sys.stderr.isatty() and done % every == 0:
            print(f"\r{done}/{total} games", end="" if done < total else "\n", file=sys.stderr, flush=True)

    return told


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be an integer ≥ 1, got {text!r}")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
