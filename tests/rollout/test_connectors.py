"""Connectors around a turn: what they leave is what is tokenised and acted upon, and mistakes are told."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.connectors.env_to_module.observation_preprocessor import SingleAgentObservationPreprocessor
from ray.rllib.core.columns import Columns
from ray.rllib.env import INPUT_ENV_SINGLE_SPACES, INPUT_ENV_SPACES
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

from ragen_envs.spaces import AnyText
from rllib_ragen.models.chat_format import ChatFormat
from rllib_ragen.rollout.connectors import TokeniseObservations, TurnConnectors
from rllib_ragen.rollout.conversation import PolicyConversation, Sampler
from rllib_ragen.rollout.turn_pipelines import TurnPipelines
from rllib_ragen.rollout.whole_batch import WholeBatchError
from rllib_ragen.starpo.config import StarPOConfig
from rllib_ragen.types import Sampling, Trajectory
from tests.rollout.marked import Marked
from tests.rollout.test_multi_agent import THREE, play, specs

Pieces = list[ConnectorV2]
SPACES = dict.fromkeys((INPUT_ENV_SPACES, INPUT_ENV_SINGLE_SPACES), (AnyText(), AnyText()))


class Piece(ConnectorV2):
    """Calls a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def __call__(self, *, batch: Any, **kwargs: Any) -> Any:
        self.function(batch=batch, **kwargs)
        return batch


class Louder(SingleAgentObservationPreprocessor):
    """RLlib's own kind of piece that rewrites an observation."""

    def preprocess(self, observation: str, episode: SingleAgentEpisode) -> str:
        return f"{observation.upper()} ({len(episode)})"


def connectors(chat: ChatFormat, read: Pieces = [], act: Pieces = []) -> TurnConnectors:  # noqa: B006 - not changed
    config = StarPOConfig().env_runners(
        env_to_module_connector=lambda env, spaces, device: read, module_to_env_connector=lambda env, spaces: act
    )
    pipelines = TurnPipelines.of(config, SPACES)
    assert pipelines is not None
    made = pipelines.for_each(
        ["red", "blue"], num_ids=len(chat.tokenizer), rl_module=None, explore=True, metrics=MetricsLogger()
    )
    return made["red"]


def games(chat: ChatFormat, read: Pieces = [], act: Pieces = []) -> list[list[Trajectory]]:  # noqa: B006
    made = connectors(chat, read, act)
    return play(chat, THREE, games=specs(2), connectors={"red": made, "blue": made})


def test_without_connectors_there_are_no_pipelines() -> None:
    assert TurnPipelines.of(StarPOConfig(), SPACES) is None


def test_a_piece_of_rllibs_kind_rewrites_what_each_agent_reads(chat: ChatFormat) -> None:
    plain, loud = play(chat, THREE, games=specs(2)), games(chat, [Louder()])
    for one, other in zip(chain.from_iterable(plain), chain.from_iterable(loud), strict=True):
        assert [turn.prompt for turn in other.turns] == [f"{t.prompt.upper()} ({i})" for i, t in enumerate(one.turns)]
        assert [turn.reward for turn in other.turns] == [turn.reward for turn in one.turns]
        first, *later = other.turns
        assert f"{first.prompt}" in chat.tokenizer.decode(first.prompt_ids.tolist())
        for turn in later:
            assert turn.prompt_ids.tolist() == chat.next_prompt(turn.prompt, True)


def test_a_prompt_that_waits_is_told_as_the_policy_reads_it(chat: ChatFormat) -> None:
    sampling = Sampling(4, chat.stop_token_ids)
    sampler = Sampler(Marked(chat, "Up"), chat, sampling, 1000, connectors(chat, [Louder()], []))
    agent = PolicyConversation(Trajectory("g", env_seed=0, outcome_seed=0), sampler, (1,))
    agent.hear("hello", "state", "rules")
    assert agent.heard.prompt == "HELLO (0)"
    assert agent.heard.token_ids.tolist() == chat.first_prompt("rules", "HELLO (0)")


def test_pieces_see_the_agents_episode_in_words_and_the_tokens_so_far(chat: ChatFormat) -> None:
    seen: dict[str, list[Any]] = {}

    def look(*, episodes: Any, shared_data: Any, explore: Any, **kwargs: Any) -> None:
        (episode,) = episodes
        seen.setdefault(episode.id_, []).append(
            (
                (episode.agent_id, episode.module_id, episode.custom_data["group_id"]),
                (list(episode.observations.data), list(episode.actions.data), list(episode.rewards.data)),
                shared_data["token_ids"],
            )
        )
        assert explore is True and episode.infos.data[-1] == {"state": ""}

    played = list(chain.from_iterable(games(chat, [Piece(look)])))
    assert len(seen) == len(played) == 6
    names = [{name for name, *_ in calls} for calls in seen.values()]
    assert all(len(own) == 1 for own in names)
    assert set().union(*names) == {(one.agent_id, one.module_id, one.group_id) for one in played}
    (ann,) = [calls for calls in seen.values() if calls[0][0] == ("ann", "red", "red/ann/0")]
    own = next(one for one in played if one.group_id == "red/ann/0")
    texts, replies, rewards = ann[1][1]
    assert texts == [turn.prompt for turn in own.turns] and replies == [own.turns[0].reply]
    assert rewards == [own.turns[0].reward] == [1.0]
    first = own.turns[0]
    assert ann[0][2] == [] and ann[1][2] == [*first.prompt_ids, *first.reply_ids]


def test_pieces_after_the_tokeniser_have_the_last_word_on_the_tokens(chat: ChatFormat) -> None:
    def shorten(*, batch: Any, **kwargs: Any) -> None:
        ConnectorV2.foreach_batch_item_change_in_place(batch, Columns.OBS, lambda ids, *names: ids[-5:])

    shortened = games(chat, [Louder(), TokeniseObservations(), Piece(shorten)])
    for trajectory in chain.from_iterable(shortened):
        for turn in trajectory.turns[1:]:
            assert turn.prompt_ids.tolist() == chat.next_prompt(turn.prompt, True)[-5:]
            assert turn.prompt.isupper()


def test_the_environment_hears_what_the_pieces_leave_and_the_trajectory_keeps_the_reply(chat: ChatFormat) -> None:
    heard: list[str] = []

    def reword(*, batch: Any, episodes: Any, **kwargs: Any) -> None:
        ((reply,),) = batch[Columns.ACTIONS].values()
        ConnectorV2.add_batch_item(batch, Columns.ACTIONS_FOR_ENV, f"<{reply}>", episodes[0])
        heard.append(reply)

    made = connectors(chat, act=[Piece(reword)])
    trajectory = Trajectory("g", 0, 0, module_id="red", agent_id="ann")
    agent = made.open(trajectory, in_game=True)
    agent.hear("Hello", "", None, [], lambda text: [1, 2])
    assert agent.act("crimson") == "<crimson>"
    played = games(chat, act=[Piece(reword)])
    assert {turn.reply for game in played for one in game for turn in one.turns} == {"crimson", "azure"} == set(heard)


def fail(**kwargs: Any) -> None:
    raise KeyError("no such thing")


@pytest.mark.parametrize(
    ("read", "act", "message"),
    [
        ([Piece(fail)], [], r"env_to_module_connector=…\): KeyError: 'no such thing'"),
        ([], [Piece(fail)], r"module_to_env_connector=…\): KeyError"),
        (
            [Piece(lambda episodes, **_: episodes[0].set_observations(new_data=3, at_indices=-1))],
            [],
            r"env_to_module_connector=…\): must leave a text, not int",
        ),
        (
            [TokeniseObservations(), Piece(lambda batch, **_: batch.clear())],
            [],
            r"batch\['obs'\] must be left with one item",
        ),
        (
            [TokeniseObservations(), Piece(lambda batch, **_: batch["obs"].update({k: [[]] for k in batch["obs"]}))],
            [],
            r"one or more token ids from 0 to \d+, not \[\]",
        ),
        (
            [TokeniseObservations(), Piece(lambda batch, **_: batch["obs"].update({k: [[-1]] for k in batch["obs"]}))],
            [],
            r"one or more token ids from 0 to \d+, not \[-1\]",
        ),
        ([], [Piece(lambda batch, **_: batch.clear())], r"batch\['actions'\] must be left with one item"),
        (
            [],
            [Piece(lambda batch, **_: batch.update(actions={k: [b"x"] for k in batch["actions"]}))],
            r"module_to_env_connector=…\): must leave a text, not bytes",
        ),
    ],
)
def test_a_mistake_in_a_piece_ends_the_batch_with_its_name(
    chat: ChatFormat, read: Pieces, act: Pieces, message: str
) -> None:
    with pytest.raises(WholeBatchError, match=message):
        games(chat, read, act)


def test_a_function_that_makes_no_pieces_is_refused() -> None:
    config = StarPOConfig().env_runners(env_to_module_connector=lambda env, spaces, device: 3)
    with pytest.raises(ValueError, match="must return a ConnectorV2 object"):
        TurnPipelines.of(config, SPACES)
