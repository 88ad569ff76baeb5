"""Plays a text environment in the terminal, as a person or turn by turn with a model:

python -m rllib_ragen.play --env sokoban
python -m rllib_ragen.play --env sokoban --policy tiny
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from ragen_envs.splits import Split
from rllib_ragen.config.command_line import make_parser, read_layers, run_command, whole_number
from rllib_ragen.config.environments import picked, without_label
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.load import foundation, merge
from rllib_ragen.config.paths import enter_model
from rllib_ragen.config.schema import MAX_SEED, RunConfig
from rllib_ragen.config.task_names import game_name
from rllib_ragen.faults.ending import leave
from rllib_ragen.faults.watchdog import Watchdog, on_stderr
from rllib_ragen.models.quiet_libraries import quieten
from rllib_ragen.play.person import Person
from rllib_ragen.play.shown_session import ShownSession, play
from rllib_ragen.rollout.conversation import Conversation
from rllib_ragen.rollout.specs import evaluation_specs
from rllib_ragen.run.folder import RunFolder, is_run_folder
from rllib_ragen.run.preflight import preflight
from rllib_ragen.starpo.checks.build_config import build_config
from rllib_ragen.types import Trajectory

_FLAGS = ("--env",)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command → its exit code: 0 done, 2 bad input."""
    options = parse(arguments)

    def work() -> None:
        config, adapter = plan(options)
        fault = config.fault
        with Watchdog(on_stderr, report_after_s=fault.report_after_s, hang_timeout_s=fault.hang_timeout_s):
            _play(config, adapter, options)

    return run_command(work, keys=options.keys)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parses the command line."""
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
    """Returns the config of the environment and of a policy's model, and the adapters to merge into it.

    Raises:
        ConfigError: whatever is wrong, in one sentence.
    """
    given = merge(*read_layers(options))
    if options.policy is None:
        config = picked(build_config(foundation(given), given), None)
        _refuse_games(config)
        return config, None
    model, adapter = enter_model(options.policy), None
    path = Path(model)
    if is_run_folder(path):
        folder = RunFolder.open(path)
        given, label = without_label(folder.config(), given)
        saved = picked(folder.config(), label)
        # Whether prompts are brief follows from the model's name, which is another one from now on.
        style = {"env": {"prompt_style": saved.text_limits().prompt_style}}
        policy = folder.newest_policy()
        adapter = policy.adapter
        config = build_config(saved.model_dump(), style, given, {"model": {"path": str(policy.folder)}})
    else:
        config = picked(build_config(foundation(given), given, {"model": {"path": model}}), None)
    _refuse_games(config)
    if config.rollout.engine == "vllm":
        raise ConfigError("rollout.engine=vllm: a model plays here with the hf engine; allowed: auto, hf")
    preflight(config, writes=False)
    return config, adapter


def _play(config: RunConfig, adapter: Path | None, options: argparse.Namespace) -> None:
    (spec,) = evaluation_specs(options.split, [options.instance])
    trajectory = Trajectory(spec.group_id, spec.env_seed, spec.outcome_seed)
    agent: Conversation
    if options.policy is None:
        agent = Person(trajectory, config.env.think)
    else:
        from rllib_ragen.play.model import Model, load_sampler

        quieten()
        agent = Model(trajectory, load_sampler(config, adapter, greedy=options.greedy), (spec.sampling_seed,))
    play(config, ShownSession(spec, agent))


def _refuse_games(config: RunConfig) -> None:
    if game_name(config.env.name) is not None:
        raise ConfigError(
            f"env.name={config.env.name} is a game for several seats: play it with"
            f" python -m ragen_envs.games.play {config.env.name}"
        )


def _natural(text: str) -> int:
    return whole_number(text, 0, MAX_SEED)


if __name__ == "__main__":
    leave(main)
