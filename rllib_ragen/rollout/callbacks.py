"""RLlib's callbacks on an EnvRunner: told of every episode as it is played, with the episode that they may change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol

from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.callbacks.utils import make_callback

from rllib_ragen.rollout.env_pool import EnvSlot
from rllib_ragen.rollout.episodes import LiveEpisode
from rllib_ragen.rollout.game_episodes import Episode, LiveGame
from rllib_ragen.rollout.game_session import GameSession
from rllib_ragen.rollout.session import EnvT
from rllib_ragen.rollout.text_session import TextSession

Tell = Callable[..., None]
"""(name of the callback, what it is given by name)."""


class CallbackError(RuntimeError):
    """A user's callback raised. As in RLlib that ends the iteration: nothing of the batch counts."""


class Record(Protocol):
    """The RLlib episode of a session that is being played."""

    @property
    def episode(self) -> Episode:
        """One object from the episode's beginning to its end."""

    def catch_up(self) -> None:
        """Adds what the session has done since the last call."""

    def close(self) -> None:
        """Adds the rest of a session that is over."""


class TextRecord:
    """That of one agent's episode."""

    def __init__(self, session: TextSession) -> None:
        self._session = session
        self._live = LiveEpisode(session.trajectory, session.spec.split)
        self.episode: Episode = self._live.episode

    def catch_up(self) -> None:
        self._live.catch_up(self._session.conversation.heard)

    def close(self) -> None:
        self._live.close()


class GameRecord:
    """That of a game."""

    def __init__(self, session: GameSession) -> None:
        self._session = session
        self._live = LiveGame(session.spec.group_id, session.spec.split)
        self.episode: Episode = self._live.episode

    def catch_up(self) -> None:
        self._live.catch_up({name: (one.trajectory, one.heard) for name, one in self._session.agents.items()})

    def close(self) -> None:
        self._live.close(self._session.trajectories)


class EpisodeCallbacks(Generic[EnvT]):
    """Tells callbacks of the episodes of one batch: created, started (after the reset), stepped, ended.

    An episode whose environment fails on its reset is created and ended, never started.
    """

    def __init__(self, tell: Tell, record: Callable[[Any], Record]) -> None:
        """`record` makes a session's."""
        self._tell, self._record = tell, record
        self._records: dict[int, Record] = {}
        self._slots: dict[int, EnvSlot[EnvT]] = {}
        self._started: set[int] = set()

    @property
    def episodes(self) -> list[Episode]:
        """Episodes in the order of the loop's sessions."""
        return [self._records[number].episode for number in sorted(self._records)]

    def created(self, number: int, session: Any, slot: EnvSlot[EnvT]) -> None:
        """Begins an episode."""
        self._records[number], self._slots[number] = self._record(session), slot
        self._tell_of(number, "on_episode_created")

    def answered(self, number: int) -> None:
        """Adds what an answer of the environment has led to."""
        self._records[number].catch_up()
        self._tell_of(number, "on_episode_step" if number in self._started else "on_episode_start")
        self._started.add(number)

    def ended(self, number: int) -> None:
        """Ends an episode."""
        self._records[number].close()
        self._tell_of(number, "on_episode_end", prev_episode_chunks=[])
        del self._slots[number]

    def _tell_of(self, number: int, name: str, **more: object) -> None:
        slot = self._slots[number]
        self._tell(name, episode=self._records[number].episode, env=slot.env, env_index=slot.index, **more)


def call_back(name: str, objects: list[RLlibCallback], config: Any, given: Mapping[str, object]) -> None:
    """Calls a callback of the config's classes and functions.

    Raises:
        CallbackError: it raised; one sentence with its name, and the error as the cause.
    """
    try:
        make_callback(name, objects, getattr(config, f"callbacks_{name}"), kwargs=dict(given))
    except Exception as error:
        raise CallbackError(f"the callback {name} raised {type(error).__name__}: {error}") from error
