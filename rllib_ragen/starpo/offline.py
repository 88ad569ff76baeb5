"""Stored trajectories as groups to train from, token for token as they were sampled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.paths import PLAYED
from rllib_ragen.models.chat_format import ChatFormat
from rllib_ragen.rollout.trajectory_files import read_trajectories, trajectory_files
from rllib_ragen.starpo.config import StarPOConfig
from rllib_ragen.types import Trajectory


class Groups:
    """Groups as they were stored: the trajectories of one file, iteration and task instance."""

    def __init__(self, groups: Sequence[Sequence[Trajectory]]) -> None:
        self._groups = groups

    def __len__(self) -> int:
        return len(self._groups)

    def group(self, index: int, prefix: str) -> list[Trajectory]:
        """Returns all trajectories of an instance, with a `group_id` behind `prefix` that no other instance has.

        In a game they are of several groups, one for each policy and role, as their ids say.
        """
        return [replace(one, group_id=f"{prefix}{index}/{one.group_id}") for one in self._groups[index]]


def stored_groups(config: StarPOConfig) -> Groups | None:
    """Returns what `offline.input` names; None: trajectories are played.

    Raises:
        ConfigError: no such file, a line that is no trajectory, or one that this run's model cannot have sampled.
    """
    given = config.to_run_config().offline.input
    if given == PLAYED:
        return None
    chat, found = config.chat_format(), dict[tuple[str, int, str], list[Trajectory]]()
    for path in trajectory_files(given):
        for iteration, trajectory in read_trajectories(path):
            what = f"offline.input: a trajectory of group {trajectory.group_id} in {path}"
            _check_fits(trajectory, config, chat, what)
            # In a game the id begins with policy and role.
            instance = trajectory.group_id.rpartition("/")[2]
            found.setdefault((str(path), iteration, instance), []).append(trajectory)
    if not found:
        raise ConfigError(f"offline.input={given}: the file is empty; allowed: at least one trajectory")
    return Groups(list(found.values()))


def _check_fits(trajectory: Trajectory, config: StarPOConfig, chat: ChatFormat, what: str) -> None:
    if trajectory.module_id not in config.module_ids():
        allowed = ", ".join(config.module_ids())
        raise ConfigError(f"{what} is policy {trajectory.module_id!r}'s; allowed: {allowed}")
    labels = [world.label for world in config.worlds()] or [""]
    if trajectory.env not in labels:
        own = f"of the environment {trajectory.env!r}" if trajectory.env else "of a run with one environment"
        allowed = ", ".join(filter(None, labels)) or "those of a run with one environment"
        raise ConfigError(f"{what} is {own}; allowed in this run: {allowed}")
    if trajectory.num_tokens > config.max_context_tokens:
        raise ConfigError(
            f"{what} has {trajectory.num_tokens} tokens; allowed: at most rollout.max_context_tokens="
            f"{config.max_context_tokens}"
        )
    ids = trajectory.token_ids()
    if len(ids) and int(ids.max()) >= len(chat.tokenizer):
        raise ConfigError(
            f"{what} has the token id {int(ids.max())}; allowed with this model: below {len(chat.tokenizer)}"
        )
    for turn in trajectory.turns:
        if not turn.reply.endswith(chat.sampled_text(turn.reply_ids.tolist())):
            raise ConfigError(
                f"{what} has reply tokens that are other words with this model's tokenizer than the reply it tells;"
                " allowed: trajectories of a model with the same tokenizer"
            )
