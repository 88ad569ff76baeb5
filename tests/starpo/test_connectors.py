"""RLlib's connectors in a run: they rewrite what is read, said and learnt, and nothing else."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ray.rllib.connectors.connector_pipeline_v2 import ConnectorPipelineV2
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.connectors.env_to_module.observation_preprocessor import SingleAgentObservationPreprocessor
from ray.rllib.core.columns import Columns
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

from rllib_ragen.credit.estimator import Credit
from rllib_ragen.credit.rows import to_rows
from rllib_ragen.starpo.learner_connectors import LOSS_WEIGHT, AssignCredit, LearnerConnectors
from rllib_ragen.types import TokenRow, Trajectory
from tests.credit.build import trajectory
from tests.rollout.test_connectors import Piece
from tests.starpo.build import digits_config


class Louder(SingleAgentObservationPreprocessor):
    """Rewrites the prompt."""

    def preprocess(self, observation: str, episode: SingleAgentEpisode) -> str:
        return f"{observation.upper()} [{len(episode)}]"


class Seven(ConnectorV2):
    """Says four digits to the environment, whatever the policy says."""

    def __call__(self, *, batch: Any, metrics: Any, **kwargs: Any) -> Any:
        self.foreach_batch_item_change_in_place(batch, Columns.ACTIONS, lambda *names: "7777")
        metrics.log_value("sevens", 1, reduce="sum")
        return batch


class PayTokens(ConnectorV2):
    """Pays a turn by the length of its reply, as RLlib's own curiosity example pays: in the episode."""

    def __call__(self, *, batch: Any, episodes: Any, **kwargs: Any) -> Any:
        for episode in self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False):
            paid = [float(len(ids)) for ids in episode.get_actions()]
            episode.set_rewards(new_data=paid, at_indices=slice(0, len(paid)))
        return batch


class Double(ConnectorV2):
    """Doubles all advantages."""

    def __call__(self, *, batch: Any, **kwargs: Any) -> Any:
        self.foreach_batch_item_change_in_place(batch, Columns.ADVANTAGES, lambda item, *names: 2 * item)
        return batch


@pytest.mark.usefixtures("local_ray")
def test_connectors_rewrite_what_is_read_said_and_learnt(model: Path) -> None:
    config = (
        digits_config(model, estimator="rloo", normalize="none")
        .env_runners(
            env_to_module_connector=lambda env, spaces, device: Louder(),
            module_to_env_connector=lambda env, spaces: [Seven()],
        )
        .learners(learner_connector=lambda observations, actions: [PayTokens(), AssignCredit(), Double()])
    )
    algo = config.build_algo()
    result = algo.train()
    played = algo.last_trajectories()
    chat = algo.config.chat_format()
    for one in played:
        for t, turn in enumerate(one.turns):
            assert turn.prompt.isupper() and turn.prompt.endswith(f"[{t}]")
            assert turn.prompt in chat.tokenizer.decode(turn.prompt_ids.tolist())
            # The environment has heard four digits; the record has what the policy said.
            assert (turn.reward, turn.reply) == (1.0, chat.reply_text(turn.reply_ids.tolist()))
    assert result["env_runners"]["sevens"] == 32
    # Rollouts are measured with the environment's rewards, and learnt from with the connector's.
    assert result["starpo"]["return_mean"] == 2.0
    lengths = np.array([one.num_reply_tokens for one in played]).reshape(4, 4)
    assert lengths.std(axis=1).max() > 0
    expected = 2 * (lengths - (lengths.sum(axis=1, keepdims=True) - lengths) / 3)
    for one, advantages, wanted in zip(played, algo.last_advantages(), expected.ravel(), strict=True):
        assert advantages is not None
        np.testing.assert_allclose(advantages[one.turn_index() >= 0], wanted, rtol=1e-6)
    # What the learner scores are the very tokens that were sampled on.
    assert result["starpo"]["logprob_gap_max"] < 1e-4
    algo.stop()


def credited(agents: tuple[str, ...] = ("default_agent",)) -> list[tuple[Trajectory, TokenRow]]:
    """Two trajectories of each agent with their rows: advantages 1, weight 0.5."""
    played = [replace(trajectory("g", [(2, 3, 1.0), (1, 2, 0.5)]), agent_id=name) for name in agents for _ in range(2)]
    one = [np.where(t.turn_index() >= 0, np.float32(1), np.float32(0)) for t in played]
    rows = to_rows(played, [Credit(a, a) for a in one], None, "none", [0.5] * len(played))
    return list(zip(played, rows, strict=True))


def connect(*pieces: ConnectorV2) -> LearnerConnectors:
    return LearnerConnectors(ConnectorPipelineV2(connectors=list(pieces)), MetricsLogger())


def test_without_pieces_nothing_is_touched() -> None:
    pairs = credited()
    rows = connect().finished(pairs)
    assert all(row is own for row, (_, own) in zip(rows, pairs, strict=True))
    assert connect().shaped([one for one, _ in pairs]) == [one for one, _ in pairs]
    assert connect(Double()).finished(pairs) == rows, "a piece without AssignCredit comes before the credit"


@pytest.mark.parametrize("agents", [("default_agent",), ("ann", "bob")])
def test_rows_are_known_by_their_episodes(agents: tuple[str, ...]) -> None:
    keys: list[Any] = []

    def change(*, batch: Any, episodes: Any, **kwargs: Any) -> None:
        keys.extend(batch[Columns.ADVANTAGES])
        assert [key[0] for key in batch[Columns.ADVANTAGES]] == [episode.id_ for episode in episodes]
        first, *_ = batch[Columns.ADVANTAGES]
        batch[LOSS_WEIGHT][first] = [3]
        batch[Columns.LOSS_MASK][first][0][-1] = 0

    pairs = credited(agents)
    rows = connect(AssignCredit(), Piece(change)).finished(pairs)
    assert len(set(keys)) == 2 * len(agents)
    assert [key[1:] for key in keys] == [() if len(agents) == 1 else (one.agent_id, one.module_id) for one, _ in pairs]
    assert [row.weight for row in rows] == [3.0] + [0.5] * (len(rows) - 1)
    assert rows[0].mask.tolist() == [0, 0, 1, 1, 1, 0, 1, 0]
    assert (rows[0].advantages[-1], rows[0].logprobs[-1], rows[1].advantages[-1]) == (0, 0, 1)
    assert pairs[0][1].mask[-1] == 1, "the rows that were given away stay as they were"


def spoil(column: str, item: Any) -> Callable[..., None]:
    def change(*, batch: Any, **kwargs: Any) -> None:
        batch[column] = {key: [item] for key in batch[column]}

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (spoil(Columns.ADVANTAGES, np.zeros(3)), r"batch\['advantages'\] must be finite numbers, 8 for as many tokens"),
        (spoil(Columns.ADVANTAGES, np.full(8, np.nan)), r"batch\['advantages'\] must be finite numbers"),
        (
            spoil(Columns.LOSS_MASK, np.ones(8)),
            r"batch\['loss_mask'\] must be 1 or 0, and 0 where no token was sampled",
        ),
        (spoil(LOSS_WEIGHT, -1), r"batch\['loss_weight'\] must be numbers ≥ 0, not -1"),
        (lambda batch, **_: batch.pop(Columns.VALUE_TARGETS), r"must leave batch\['value_targets'\] with one item"),
    ],
)
def test_rows_that_cannot_be_are_refused(change: Callable[..., Any], message: str) -> None:
    with pytest.raises(ValueError, match=rf"learners\(learner_connector=…\): .*{message}"):
        connect(AssignCredit(), Piece(change)).finished(credited())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda episode: episode.rewards.data.append(1.0), "a finite reward for each of an episode's turns"),
        (lambda episode: episode.set_rewards(new_data=float("nan"), at_indices=0), "a finite reward for each"),
        (
            lambda episode: episode.set_actions(new_data=np.array([5, 5]), at_indices=0),
            r"must stay; allowed: rewards, and rows after AssignCredit \(observations: env_runners\(env_to_module",
        ),
    ],
)
def test_before_the_credit_only_rewards_may_change(change: Callable[[Any], Any], message: str) -> None:
    def spoil_first(*, episodes: Any, **kwargs: Any) -> None:
        change(episodes[0])

    with pytest.raises(ValueError, match=rf"learners\(learner_connector=…\): .*{message}"):
        connect(Piece(spoil_first)).shaped([one for one, _ in credited()])


@pytest.mark.usefixtures("local_ray")
def test_the_example_shapes_what_is_learnt_from(capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(__file__).parents[2] / "examples" / "own_connectors.py"
    runpy.run_path(str(path))["main"](["--iterations", "1"])
    printed = capsys.readouterr().out
    assert printed.startswith("Turn 1 of 5.\n") and "   1  return " in printed
