"""Plays a text environment in the terminal, as a person or turn by turn with a model:

python -m rllib_ragen.play --env sokoban
python -m rllib_ragen.play --env sokoban --policy tiny
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ragen_envs.registry import make_text_env
from ragen_envs.reply import SEPARATOR, format_reply
from ragen_envs.splits import Split
from ragen_envs.text import TextEnv
from rllib_ragen.config.command_line import make_parser, read_layers, run_command
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.load import flatten, merge, preset
from rllib_ragen.config.printable import safe
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.config.task_names import game_name
from rllib_ragen.models.quiet_libraries import quieten
from rllib_ragen.rollout.specs import evaluation_specs
from rllib_ragen.run.folder import RunFolder, is_run_folder
from rllib_ragen.run.preflight import preflight
from rllib_ragen.starpo.checks.build_config import build_config

if TYPE_CHECKING:
    from rllib_ragen.play.model_policy import Policy

_FLAGS = ("--env",)


class Player(Protocol):
    """Answers prompts."""

    def told(self, system: str, user: str) -> None:
        """The first prompt."""

    def next(self, user: str) -> None:
        """A later one."""

    def reply(self) -> str | None:
        """The answer to the newest prompt; None: no more."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; its exit code: 0 done, 2 bad input."""
    options = parse(arguments)

    def work() -> None:
        config, adapter = plan(options)
        player: Player = Person(config.env.think) if options.policy is None else _policy(config, adapter, options)
        play(config, player, options.split, options.instance)

    return run_command(work, keys=options.keys)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = make_parser(
        "play",
        "Plays one episode: you see what a model sees and answer as it does, a line per turn (scripts may pipe them).",
        _FLAGS,
    )
    parser.add_argument("--policy", metavar="DIR", help="let a model play: tiny, a model folder, or a run folder")
    parser.add_argument("--greedy", action="store_true", help="the model's likeliest reply instead of a sampled one")
    parser.add_argument("--split", choices=[*Split], default=Split.VAL, metavar="WORD", help="train, val or test [val]")
    parser.add_argument("--instance", type=_natural, default=0, metavar="N", help="which instance of the split [0]")
    return parser.parse_args(arguments)


def plan(options: argparse.Namespace) -> tuple[RunConfig, Path | None]:
    """Reads the environment and, for a policy, the model and the adapters to merge into it.

    Raises:
        ConfigError: whatever is wrong, in one sentence.
    """
    given = merge(*read_layers(options))
    if options.policy is None:
        name = str(flatten(given).get("env.name", RunConfig().env.name))
        config = build_config(preset(name), given)
        _refuse_games(config)
        return config, None
    path, adapter = Path(options.policy), None
    if is_run_folder(path):
        folder = RunFolder.open(path)
        saved = folder.config()
        # Whether prompts are brief follows from the model's name, which is another one from now on.
        style = {"env": {"prompt_style": saved.text_limits().prompt_style}}
        policy = folder.newest_policy()
        adapter = policy.adapter
        config = build_config(saved.model_dump(), style, given, {"model": {"path": str(policy.folder)}})
    else:
        name = str(flatten(given).get("env.name", RunConfig().env.name))
        config = build_config(preset(name), given, {"model": {"path": options.policy}})
    _refuse_games(config)
    if config.rollout.engine == "vllm":
        raise ConfigError("rollout.engine=vllm: a model plays here with the hf engine; allowed: auto, hf")
    preflight(config, writes=False)
    return config, adapter


def play(config: RunConfig, player: Player, split: str, instance: int) -> None:
    """Plays one episode and shows every message in full."""
    env: TextEnv = make_text_env(config.env.name, config.env.task, asdict(config.text_limits()))
    try:
        (spec,) = evaluation_specs(split, [instance])
        message, _ = env.reset(seed=spec.env_seed, options={"split": split, "outcome_seed": spec.outcome_seed})
        show("system", env.system_prompt)
        show("user", message)
        player.told(env.system_prompt, message)
        total, done = 0.0, False
        while not done and (reply := player.reply()) is not None:
            message, reward, terminated, truncated, info = env.step(reply)
            total, done = total + reward, terminated or truncated
            dropped = f", ignored: {SEPARATOR.join(info['dropped'])}" if info["dropped"] else ""
            ran = f" {SEPARATOR} ".join(info["actions"]) or "no valid action"
            print(safe(f"· ran: {ran}{dropped}; reward {reward:g}"), flush=True)
            show("end" if done else "user", message)
            if not done:
                player.next(message)
        if done:
            end = "success" if info["success"] else "no success"
            print(f"{end} ({info['stop_reason']}) after {env.turn - 1} turns, return {total:g}")
        else:
            print(f"stopped before the end, return {total:g}")
    finally:
        env.close()


class Person:
    """Reads a line per turn: a whole reply, or only its actions."""

    def __init__(self, think: bool) -> None:
        self._thought = "" if think else None

    def told(self, system: str, user: str) -> None:
        """Says how to answer."""
        print(f"Answer with actions (Up {SEPARATOR} Left) or with a whole reply; Ctrl-D ends.")

    def next(self, user: str) -> None:
        """Nothing to remember: it is on the screen."""

    def reply(self) -> str | None:
        """What the model would have to say for the same actions."""
        for line in sys.stdin:
            text = line.strip()
            if not text:
                continue
            reply = text if "<" in text else self._whole(text)
            show("assistant", reply)
            return reply
        return None

    def _whole(self, actions: str) -> str:
        return format_reply([part.strip() for part in actions.split(SEPARATOR)], self._thought)


def show(role: str, text: str) -> None:
    """One message, as it is but for control characters."""
    print(f"[{role}]\n{safe(text)}", flush=True)


def _refuse_games(config: RunConfig) -> None:
    if game_name(config.env.name) is not None:
        raise ConfigError(
            f"env.name={config.env.name} is a game for several seats: play it with"
            f" python -m ragen_envs.games.play {config.env.name}"
        )


def _policy(config: RunConfig, adapter: Path | None, options: argparse.Namespace) -> Policy:
    from rllib_ragen.play.model_policy import Policy

    quieten()
    (spec,) = evaluation_specs(options.split, [options.instance])
    return Policy(config, adapter, greedy=options.greedy, sampling_seed=spec.sampling_seed, show=show)


def _natural(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"must be an integer ≥ 0, got {text!r}")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
