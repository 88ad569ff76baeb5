"""The loop by hand: who is asked when, what ends an episode, and what is left behind. No thread and no model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from rllib_ragen.faults.heartbeat import own
from rllib_ragen.models.chat_format import ChatFormat
from rllib_ragen.rollout.conversation import Ask, PolicyConversation, Sampler
from rllib_ragen.rollout.engines.base import Engine
from rllib_ragen.rollout.env_answers import BadAnswer
from rllib_ragen.rollout.env_pool import EnvPool
from rllib_ragen.rollout.episode_loop import NOT_FINITE, EpisodeLoop
from rllib_ragen.rollout.session import EnvCall, Session, Steps, on_env
from rllib_ragen.rollout.whole_batch import WholeBatchError
from rllib_ragen.types import Sampled, Sampling, StopReason, Trajectory
from tests.rollout.marked import Marked


class Room:
    """An environment that knows its number, and who is in it."""

    made: list[Room]

    def __init__(self) -> None:
        self.number = len(self.made)
        self.closed = 0
        self.made.append(self)

    def close(self) -> None:
        self.closed += 1


@pytest.fixture(autouse=True)
def no_rooms() -> None:
    Room.made = []


class Noting(Marked):
    """Remembers what it was asked; answers with `results` first, and is only polled while somebody waits."""

    def __init__(self, chat: ChatFormat, results: Sequence[Sampled] = (), fails_on: str | None = None) -> None:
        super().__init__(chat, "Up", fails_on)
        self.asked: list[tuple[int, list[int], Sampling]] = []
        self.results, self.resets = list(results), 0

    def add(self, key: int, prompt_ids: Sequence[int], sampling: Sampling) -> None:
        super().add(key, prompt_ids, sampling)
        self.asked.append((key, list(prompt_ids), sampling))

    def poll(self) -> list[Any]:
        assert self.waiting, "nobody waits"
        answers = super().poll()
        return [(answers[0][0], self.results.pop(0))] if self.results else answers

    def reset(self) -> None:
        super().reset()
        self.resets += 1


class Told:
    """A session that does the given steps and remembers what it was answered; with `then`, the end is that."""

    def __init__(self, *steps: EnvCall[Room] | Ask, then: Callable[[], None] = lambda: None) -> None:
        self.steps, self.then = steps, then
        self.heard: list[Any] = []
        self.ended = False
        self.stopped: tuple[StopReason, str] | None = None

    def play(self) -> Steps[Room]:
        for step in self.steps:
            self.heard.append((yield step))
        self.then()
        self.ended = True

    def stop(self, reason: StopReason, error: str = "") -> None:
        assert self.stopped is None
        self.stopped = (reason, error)


NUMBER: EnvCall[Room] = EnvCall(lambda room: room.number)


def raising(error: BaseException) -> Callable[..., Any]:
    def call(*_: Any) -> Any:
        raise error

    return call


def speaker(engine: Engine, chat: ChatFormat, policy: str = "red", limit: int = 1000, said: str = "hello") -> Any:
    sampler = Sampler(engine, chat, Sampling(8, chat.stop_token_ids), limit)
    one = PolicyConversation(Trajectory("g", 0, 0, module_id=policy), sampler, (1, 2), prefix=f"{policy}: ")
    one.hear(said, "")
    return one


def run(
    sessions: Sequence[Session[Room]],
    engines: Mapping[str, Engine],
    most: int = 8,
    progress: Callable[[int], None] = lambda done: None,
) -> EnvPool[Room]:
    pool = EnvPool(Room, threaded=False)
    EpisodeLoop(engines, pool, max_episodes=most, progress=progress).run(sessions)
    return pool


def test_the_environments_result_and_nothing_for_a_reply_is_sent_back(chat: ChatFormat) -> None:
    engine = Noting(chat)
    one = speaker(engine, chat)
    session = Told(NUMBER, Ask([one]), EnvCall(lambda room: "second"))
    run([session], {"red": engine})
    assert session.heard == [0, None, "second"] and session.ended and session.stopped is None
    assert one.reply == "Up"
    assert engine.asked == [(0, chat.first_prompt("", "hello"), engine.asked[0][2])]


def test_on_env_returns_what_the_environment_did() -> None:
    def closed(room: Room) -> int:
        return room.closed

    steps = on_env(closed)
    asked = next(steps)
    assert asked.call(Room()) == 0
    with pytest.raises(StopIteration) as done:
        steps.send(7)
    assert done.value.value == 7


def test_an_episode_keeps_its_environment_and_gives_it_to_the_next() -> None:
    sessions = [Told(NUMBER, NUMBER, NUMBER) for _ in range(5)]
    done: list[int] = []
    pool = run(sessions, {}, most=2, progress=done.append)
    assert {session.heard[0] for session in sessions} <= {0, 1}
    assert all(len(set(session.heard)) == 1 for session in sessions)
    assert done == [1, 2, 3, 4, 5]
    assert not any(room.closed for room in Room.made)
    pool.close()
    assert [room.closed for room in Room.made] == [1] * len(Room.made)


@pytest.mark.parametrize("most", [1, 2, 3])
def test_so_many_episodes_are_in_flight_and_no_more(chat: ChatFormat, most: int) -> None:
    waiting: list[int] = []

    class Counting(Noting):
        def poll(self) -> list[Any]:
            waiting.append(len(self.waiting))
            return super().poll()

    engine = Counting(chat)
    run([Told(NUMBER, Ask([speaker(engine, chat)])) for _ in range(5)], {"red": engine}, most)
    assert max(waiting) == len(Room.made) == most


def test_a_conversation_is_known_by_one_key_to_its_end(chat: ChatFormat) -> None:
    engines = {"red": Noting(chat), "blue": Noting(chat)}
    ann, bob = (speaker(engines[name], chat, name) for name in ("red", "blue"))
    cat = speaker(engines["red"], chat)
    run([Told(Ask([ann, bob]), Ask([bob]), Ask([ann])), Told(Ask([cat]))], engines)
    assert [key for key, _, _ in engines["red"].asked] == [0, 2, 0]
    assert [key for key, _, _ in engines["blue"].asked] == [1, 1]
    assert (sorted(engines["red"].forgotten), engines["blue"].forgotten) == ([0, 2], [1])
    assert [len(one.trajectory.turns) for one in (ann, bob, cat)] == [2, 2, 1]


def test_it_goes_on_when_all_have_replied(chat: ChatFormat) -> None:
    engines = {"red": Noting(chat), "blue": Noting(chat)}
    ann, bob = (speaker(engines[name], chat, name) for name in ("red", "blue"))

    def replied(room: Room) -> list[int]:
        return [len(one.trajectory.turns) for one in (ann, bob)]

    session = Told(Ask([ann, bob]), EnvCall(replied))
    run([session], engines)
    assert session.heard[1] == [1, 1]


def test_a_full_context_ends_the_episode(chat: ChatFormat) -> None:
    engine = Noting(chat)
    full, other = speaker(engine, chat, limit=5), speaker(engine, chat)
    ended, next_one = Told(NUMBER, Ask([other, full])), Told(NUMBER)
    run([ended, next_one], {"red": engine}, most=1)
    assert ended.stopped == (StopReason.CONTEXT_FULL, "") and not ended.ended
    assert engine.asked == [] and full.trajectory.turns == []
    assert next_one.heard == [0], "its environment is sound"


def test_where_a_full_one_is_muted_it_says_nothing_and_the_others_reply(chat: ChatFormat) -> None:
    engine = Noting(chat)
    full, other = speaker(engine, chat, limit=5), speaker(engine, chat)
    session = Told(Ask([full, other], mute_when_full=True), Ask([full], mute_when_full=True), NUMBER)
    run([session], {"red": engine})
    assert session.ended and session.stopped is None
    assert [turn.reply for turn in full.trajectory.turns] == ["", ""]
    assert [turn.reply for turn in other.trajectory.turns] == ["Up"]
    assert len(engine.asked) == 1


def test_a_failed_request_ends_its_episode_and_drops_its_other_requests(chat: ChatFormat) -> None:
    engine = Noting(chat, fails_on="bad")
    good, bad = speaker(engine, chat), speaker(engine, chat, said="bad")
    failed, after = Told(NUMBER, Ask([good, bad])), Told(NUMBER, Ask([speaker(engine, chat)]))
    run([failed, after], {"red": engine}, most=1)
    assert failed.stopped == (StopReason.ENGINE_ERROR, "red: this one fails")
    assert good.trajectory.turns == [] and sorted(engine.forgotten) == [0, 1, 2] and not engine.waiting
    assert after.ended and after.heard == [0, None], "the environment is sound"


def test_a_reply_that_comes_with_the_failure_of_another_is_dropped(chat: ChatFormat) -> None:
    class Together(Noting):
        def poll(self) -> list[Any]:
            return [answer for _ in range(len(self.waiting)) for answer in super(Noting, self).poll()]

    engine = Together(chat, fails_on="bad")
    good, bad, other = speaker(engine, chat), speaker(engine, chat, said="bad"), speaker(engine, chat)
    failed, after = Told(Ask([good, bad])), Told(Ask([other]))
    run([failed, after], {"red": engine})
    assert failed.stopped is not None and good.trajectory.turns == []
    assert after.ended and len(other.trajectory.turns) == 1


BROKEN = {
    "not finite": (Sampled([5], [math.nan], True, 0), f"red: {NOT_FINITE}"),
    "no token": (Sampled([2**40], [-1.0], True, 0), "red: OverflowError: "),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_reply_that_cannot_be_taken_is_the_engines_error(chat: ChatFormat, name: str) -> None:
    result, error = BROKEN[name]
    engine = Noting(chat, [result])
    failed, after = Told(NUMBER, Ask([speaker(engine, chat)])), Told(NUMBER, Ask([speaker(engine, chat)]))
    run([failed, after], {"red": engine}, most=1)
    assert failed.stopped is not None and not failed.ended
    assert failed.stopped[0] is StopReason.ENGINE_ERROR and failed.stopped[1].startswith(error)
    assert after.ended and after.heard == [0, None]


@pytest.mark.parametrize(
    ("error", "told"), [(ValueError("no door"), "ValueError: no door"), (BadAnswer("a wall"), "a wall")]
)
@pytest.mark.parametrize("where", ["the environment", "the session"])
def test_an_environment_that_failed_is_closed_and_not_used_again(error: Exception, told: str, where: str) -> None:
    raises = raising(error)
    failed = Told(NUMBER, EnvCall(raises)) if where == "the environment" else Told(NUMBER, then=raises)
    after = Told(NUMBER)
    run([failed, after], {}, most=1)
    assert failed.stopped == (StopReason.ENV_ERROR, told) and not failed.ended
    assert after.heard == [1]
    assert [room.closed for room in Room.made] == [1, 0]


@pytest.mark.parametrize("error", [WholeBatchError("no such policy"), KeyboardInterrupt()])
def test_what_concerns_all_ends_all(chat: ChatFormat, error: BaseException) -> None:
    engines = {"red": Noting(chat), "blue": Noting(chat)}
    waiting = Told(NUMBER, Ask([speaker(engines["red"], chat)]))
    with pytest.raises(type(error)):
        run([waiting, Told(NUMBER, then=raising(error))], engines)
    assert waiting.stopped is None and not waiting.ended
    assert [engine.resets for engine in engines.values()] == [1, 1]
    assert [room.closed for room in Room.made] == [1, 1]


def test_policies_are_looked_at_in_the_order_of_their_names(chat: ChatFormat) -> None:
    order: list[str] = []

    class Named(Noting):
        name = ""

        def poll(self) -> list[Any]:
            order.append(self.name)
            return super().poll()

    engines = {name: Named(chat) for name in ("red", "blue", "green")}
    for name, engine in engines.items():
        engine.name = name
    run([Told(Ask([speaker(engines[name], chat, name) for name in ("red", "blue")]))], engines)
    assert order == ["blue", "red"]


def test_only_answers_are_progress_where_nothing_limits_the_wait(chat: ChatFormat) -> None:
    """Two beats: the batch begins, and the environment has answered. The rounds of the engine are none."""
    engine = Noting(chat)
    before = own()
    run([Told(NUMBER, Ask([speaker(engine, chat)]), Ask([speaker(engine, chat)]))], {"red": engine})
    assert own().beats == before.beats + 2
    assert (own().done, own().total) == (0, 1)
    run([Told(NUMBER), Told(NUMBER)], {}, most=1)
    assert (own().done, own().total) == (2, 2)


def test_every_round_is_progress_where_a_limit_ends_the_wait(chat: ChatFormat) -> None:
    engine, before = Noting(chat), own()
    session = Told(Ask([speaker(engine, chat)]), Ask([speaker(engine, chat)]))
    EpisodeLoop({"red": engine}, EnvPool(Room, threaded=False), max_episodes=1, env_timeout_s=9.0).run([session])
    assert own().beats == before.beats + 3


def test_nothing_to_play_is_done_at_once() -> None:
    run([], {})
    assert (own().done, own().total) == (0, 0) and Room.made == []
