"""The one loop that plays episodes: training, evaluation, games, tournaments and the terminal go through it.

Each finished reply goes through its environment and comes back as the next request at once; no episode waits for
another. Environments and engines work side by side, and whatever goes wrong in one episode ends that episode alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol

from rllib_ragen.faults.heartbeat import beat
from rllib_ragen.rollout.conversation import Ask, PolicyConversation
from rllib_ragen.rollout.engines.base import Engine, EngineFailure
from rllib_ragen.rollout.env_answers import error_text
from rllib_ragen.rollout.env_pool import EnvPool, EnvSlot
from rllib_ragen.rollout.pending_env_calls import PendingEnvCalls
from rllib_ragen.rollout.session import EnvCall, EnvT, Session, Steps
from rllib_ragen.rollout.whole_batch import WholeBatchError
from rllib_ragen.types import Sampled, StopReason

NOT_FINITE = "the engine gave non-finite log-probs"


class Watcher(Protocol[EnvT]):
    """Who is told what becomes of episodes, in their order, in the loop's own thread. What it raises ends the batch."""

    def created(self, number: int, session: Session[EnvT], slot: EnvSlot[EnvT]) -> None:
        """Hears of an episode that is about to begin; `number` is its place among the loop's sessions."""

    def answered(self, number: int) -> None:
        """Hears that its environment has answered, and that the session has taken note: first a reset, then steps."""

    def ended(self, number: int) -> None:
        """Hears that it is over, for whatever reason."""


@dataclass(eq=False)
class _Episode(Generic[EnvT]):
    """An unfinished episode, which waits for its environment or for replies, never for both."""

    number: int
    session: Session[EnvT]
    steps: Steps[EnvT]
    slot: EnvSlot[EnvT]
    asked: dict[int, PolicyConversation] = field(default_factory=dict)
    """Conversations whose replies it waits for, by key."""
    keys: dict[PolicyConversation, int] = field(default_factory=dict)
    """The engines' keys of its conversations."""


class EpisodeLoop(Generic[EnvT]):
    """Plays sessions, up to `max_episodes` at once.

    On a CPU with the hf engine the result is the same bit for bit in every run, unless environments are slow (more
    than about a third of the time): then only the last bits of log-probs may depend on which replies met in a batch.
    """

    def __init__(
        self,
        engines: Mapping[str, Engine],
        pool: EnvPool[EnvT],
        *,
        max_episodes: int,
        env_timeout_s: float | None = None,
        progress: Callable[[int], None] = lambda done: None,
        watcher: Watcher[EnvT] | None = None,
    ) -> None:
        """
        Args:
            engines: engines by policy id, with no request in flight, before and after.
            pool: the environments; its owner closes it, and made it `threaded` if there is a limit.
            max_episodes: most episodes in flight.
            env_timeout_s: longest call of an environment; None: no limit.
            progress: is told how many episodes are over, after each.
            watcher: is told what becomes of each; None: nobody.
        """
        self._engines, self._pool = engines, pool
        self._max_episodes, self._progress, self._watcher = max_episodes, progress, watcher
        self._limited = env_timeout_s is not None
        self._calls: PendingEnvCalls[_Episode[EnvT]] = PendingEnvCalls(env_timeout_s)
        self._live: dict[int, _Episode[EnvT]] = {}
        self._requested: dict[str, dict[int, _Episode[EnvT]]] = {policy: {} for policy in sorted(engines)}
        """Who waits for a reply: by policy, in the order in which results must be looked for, and key."""
        self._next_key = self._done = self._total = 0

    def run(self, sessions: Sequence[Session[EnvT]]) -> None:
        """Plays all sessions to their ends. Call it once.

        Raises:
            EngineDead: an engine is gone; nothing of the batch counts.
            WholeBatchError: an error that concerns all.
        """
        queue, self._total = deque(enumerate(sessions)), len(sessions)
        beat(0, self._total)
        try:
            while self._done < self._total:
                while queue and len(self._live) < self._max_episodes:
                    self._start(*queue.popleft())
                self._settle()
                self._poll()
        except BaseException:
            for engine in self._engines.values():
                engine.reset()
            raise
        finally:
            for episode in self._live.values():
                episode.slot.close()

    def _start(self, number: int, session: Session[EnvT]) -> None:
        episode = _Episode(number, session, session.play(), self._pool.borrow())
        self._live[number] = episode
        if self._watcher:
            self._watcher.created(number, session, episode.slot)
        self._resume(episode)

    def _settle(self) -> None:
        """Goes on with the episodes whose environments have answered."""
        moved = self._calls.settle(any(self._requested.values()), self._env_answered, self._env_failed)
        if moved or self._limited:
            # Where nothing limits the wait, only answers are progress: else a hang would look like work.
            beat(self._done, self._total)

    def _poll(self) -> None:
        """Resumes the episodes whose replies are finished."""
        for policy in [policy for policy, waiting in self._requested.items() if waiting]:
            for key, result in self._engines[policy].poll():
                # An episode that another reply has just ended took its other requests with it.
                if episode := self._requested[policy].pop(key, None):
                    self._on_reply(episode, key, result)

    def _env_answered(self, episode: _Episode[EnvT], answer: Any) -> None:
        self._resume(episode, answer, told=self._watcher)

    def _resume(self, episode: _Episode[EnvT], answer: Any = None, told: Watcher[EnvT] | None = None) -> None:
        """Lets the session go on with what it waited for, up to what it wants next."""
        step: EnvCall[EnvT] | Ask | None
        try:
            step = episode.steps.send(answer)
        except StopIteration:
            step = None
        except WholeBatchError:
            raise
        except Exception as error:
            self._env_failed(episode, error_text(error))
            return
        if told:
            told.answered(episode.number)
        if step is None:
            self._finish(episode)
        elif isinstance(step, EnvCall):
            self._calls.ask(episode.number, episode, episode.slot, step.call)
        else:
            self._ask(episode, step)

    def _ask(self, episode: _Episode[EnvT], ask: Ask) -> None:
        full = [one for one in ask.conversations if one.full]
        if full and not ask.mute_when_full:
            self._stop(episode, StopReason.CONTEXT_FULL)
            return
        for conversation in full:
            conversation.say("")
        for conversation in ask.conversations:
            if conversation not in full:
                self._request(episode, conversation)
        if not episode.asked:
            self._resume(episode)

    def _request(self, episode: _Episode[EnvT], conversation: PolicyConversation) -> None:
        if conversation not in episode.keys:
            episode.keys[conversation] = self._next_key
            self._next_key += 1
        key = episode.keys[conversation]
        episode.asked[key] = conversation
        self._requested[conversation.policy][key] = episode
        self._engines[conversation.policy].add(key, conversation.token_ids, conversation.next_sampling())

    def _on_reply(self, episode: _Episode[EnvT], key: int, result: Sampled | EngineFailure) -> None:
        conversation = episode.asked.pop(key)
        if isinstance(result, EngineFailure):
            error = result.error
        else:
            try:
                error = "" if conversation.take(result) else NOT_FINITE
            except Exception as problem:
                error = error_text(problem)
        if error:
            self._stop(episode, StopReason.ENGINE_ERROR, conversation.prefix + error)
        elif not episode.asked:
            self._resume(episode)

    def _env_failed(self, episode: _Episode[EnvT], error: str) -> None:
        self._stop(episode, StopReason.ENV_ERROR, error)

    def _stop(self, episode: _Episode[EnvT], reason: StopReason, error: str = "") -> None:
        episode.session.stop(reason, error)
        # After an error its state is unknown, and it may still be busy.
        self._finish(episode, sound=reason is not StopReason.ENV_ERROR)

    def _finish(self, episode: _Episode[EnvT], sound: bool = True) -> None:
        if self._watcher:
            self._watcher.ended(episode.number)
        for conversation, key in episode.keys.items():
            self._requested[conversation.policy].pop(key, None)
            self._engines[conversation.policy].forget(key)
        del self._live[episode.number]
        if sound:
            self._pool.give_back(episode.slot)
        else:
            episode.slot.close()
        self._done += 1
        self._progress(self._done)
