"""One agent's part of an episode, by hand: what it is told, how it is sampled, and where its rewards go."""

from __future__ import annotations

import math

import pytest

from ragen_envs.seeds import Stream, seed_of
from rllib_ragen.config.schema import RolloutSection
from rllib_ragen.models.chat_format import ChatFormat
from rllib_ragen.rollout.conversation import Ask, Conversation, PolicyConversation, Sampler, reply_sampling
from rllib_ragen.types import Sampled, Sampling, StopReason, Trajectory
from tests.rollout.marked import Marked


def trajectory() -> Trajectory:
    return Trajectory("group", env_seed=1, outcome_seed=2, module_id="red")


def speaker(chat: ChatFormat, limit: int = 1000, seeds: tuple[int, ...] = (7, 3)) -> PolicyConversation:
    sampling = Sampling(20, (2,), temperature=0.5, top_p=0.9, top_k=4, seed=99)
    return PolicyConversation(trajectory(), Sampler(Marked(chat, "Up"), chat, sampling, limit), seeds, prefix="ann: ")


def reply(count: int = 3, logprob: float = -0.5) -> Sampled:
    return Sampled([5] * count, [logprob] * count, finished=False, policy_version=3)


def test_a_turn_has_its_prompts_message_and_state() -> None:
    person = Conversation(trajectory())
    person.hear("Where?", "start", "Rules")
    person.say("Up")
    person.hear("And now?", "middle")
    person.say("Down")
    assert [(t.prompt, t.state, t.reply) for t in person.trajectory.turns] == [
        ("Where?", "start", "Up"),
        ("And now?", "middle", "Down"),
    ]
    assert person.reply == "Down"
    assert all(len(t.prompt_ids) == len(t.reply_ids) == len(t.logprobs) == 0 for t in person.trajectory.turns)
    assert {(t.reward, t.policy_version) for t in person.trajectory.turns} == {(0.0, 0)}


def test_its_reply_is_what_it_said_last() -> None:
    person = Conversation(trajectory())
    for said in ("Up", "Down", "Left"):
        person.say(said)
        assert person.reply == said
    with pytest.raises(NotImplementedError):
        person.answer()


def test_a_reward_goes_to_the_last_turn_and_before_it_to_the_first() -> None:
    person = Conversation(trajectory())
    person.pay(1.0)
    person.pay(0.25)
    person.say("Up")
    person.pay(4.0)
    person.say("Down")
    person.pay(2.0)
    person.pay(8.0)
    person.close(StopReason.GOAL)
    assert [turn.reward for turn in person.trajectory.turns] == [5.25, 10.0]


@pytest.mark.parametrize(("paid", "rewards"), [(3.0, [3.0]), (-3.0, [-3.0]), (0.0, [])])
def test_who_is_paid_and_never_replies_gets_one_turn(paid: float, rewards: list[float]) -> None:
    person = Conversation(trajectory())
    person.pay(paid)
    person.close(StopReason.FAILED)
    assert [turn.reward for turn in person.trajectory.turns] == rewards


def test_the_end_is_written_down() -> None:
    person = Conversation(trajectory())
    assert not person.ended
    person.close(StopReason.ENV_ERROR, "the dice are gone")
    assert person.ended
    assert (person.trajectory.stop_reason, person.trajectory.error) == (StopReason.ENV_ERROR, "the dice are gone")


def test_a_policy_hears_the_system_message_once_and_the_others_as_they_come(chat: ChatFormat) -> None:
    one = speaker(chat)
    assert (one.policy, one.token_ids, one.prefix) == ("red", [], "ann: ")
    one.hear("Where?", "start", "Rules")
    assert one.token_ids == chat.first_prompt("Rules", "Where?")
    assert one.take(reply())
    one.hear("And now?", "middle", "Rules")
    assert one.token_ids == [*chat.first_prompt("Rules", "Where?"), 5, 5, 5, *chat.next_prompt("And now?", False)]
    assert one.take(reply())
    assert [(t.prompt, t.state) for t in one.trajectory.turns] == [("Where?", "start"), ("And now?", "middle")]


def test_it_asks_for_itself_alone(chat: ChatFormat) -> None:
    one = speaker(chat)
    assert list(one.answer()) == [Ask((one,), mute_when_full=False)]


@pytest.mark.parametrize(("room", "most"), [(100, 20), (20, 20), (19, 19), (1, 1)])
def test_a_reply_is_sampled_within_the_room_there_is(chat: ChatFormat, room: int, most: int) -> None:
    one = speaker(chat, len(chat.first_prompt("", "Where?")) + room)
    one.hear("Where?", "")
    assert not one.full
    seed = seed_of(Stream.TURN_SAMPLING, 7, 3, 0)
    assert one.next_sampling() == Sampling(most, (2,), temperature=0.5, top_p=0.9, top_k=4, seed=seed)


def test_every_turn_has_a_seed_of_its_own(chat: ChatFormat) -> None:
    one, seeds = speaker(chat), []
    for _ in range(3):
        one.hear("Where?", "")
        seeds.append(one.next_sampling().seed)
        one.take(reply())
    assert seeds == [seed_of(Stream.TURN_SAMPLING, 7, 3, turn) for turn in range(3)]


def test_a_full_context_hears_no_more(chat: ChatFormat) -> None:
    one = speaker(chat, len(chat.first_prompt("", "Where?")) + 3)
    one.hear("Where?", "")
    one.take(reply(3))
    assert one.full
    before = one.token_ids
    one.hear("And now?", "")
    assert one.token_ids == before


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_reply_with_one_log_prob_that_is_not_finite_is_told(chat: ChatFormat, bad: float) -> None:
    one = speaker(chat)
    one.hear("Where?", "")
    assert not one.take(Sampled([5, 5], [-1.0, bad], finished=False, policy_version=0))
    assert len(one.trajectory.turns) == 1


def test_replies_are_sampled_as_the_settings_say_or_greedily(chat: ChatFormat) -> None:
    section = RolloutSection(max_reply_tokens=7, temperature=0.5, top_p=0.9, top_k=4)
    stops = chat.stop_token_ids
    assert reply_sampling(section, chat, greedy=False) == Sampling(7, stops, temperature=0.5, top_p=0.9, top_k=4)
    assert reply_sampling(section, chat, greedy=False, temperature=1.5).temperature == 1.5
    for temperature in (None, 1.5):
        found = reply_sampling(section, chat, greedy=True, temperature=temperature)
        assert found == Sampling(7, stops, temperature=0.0, top_p=1.0, top_k=0)


def test_a_conversation_in_words_acts_as_it_says_and_has_no_tokens_that_wait() -> None:
    person = Conversation(trajectory())
    person.hear("hello", "state")
    person.say("Up")
    assert person.act() == "Up"
    assert (person.heard.token_ids.tolist(), person.heard.prompt, person.heard.state) == ([], "", "")
