"""RLlib's callbacks and result shapes: what a user's own code hears of episodes, on local and on remote runners."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.core.columns import Columns

from rllib_ragen.rollout.callbacks import CallbackError
from rllib_ragen.rollout.episodes import TextEpisode
from rllib_ragen.rollout.game_episodes import GameEpisode
from rllib_ragen.rollout.runner_pool import restart
from rllib_ragen.starpo.algorithm import StarPO
from tests.starpo.build import digits_config
from tests.starpo.test_games import game_config

pytestmark = pytest.mark.usefixtures("local_ray")
OF_EPISODES = ("on_episode_created", "on_episode_start", "on_episode_step", "on_episode_end")


class Heard(NamedTuple):
    """What a callback saw of an episode at that moment."""

    name: str
    episode: Any
    length: int
    num_observations: int
    newest: list[int]
    split: str
    has_env: bool


class Ear:
    """Functions for `config.callbacks` that note what they hear."""

    def __init__(self) -> None:
        self.heard: list[Heard] = []
        self.samples: list[list[Any]] = []

    def functions(self) -> dict[str, Callable[..., None]]:
        # No bound methods: a config copies those with their objects.
        return {name: self._of(name) for name in OF_EPISODES} | {"on_sample_end": self._at_sample_end()}

    def _of(self, name: str) -> Callable[..., None]:
        def hear(*, episode: Any, env_runner: Any, metrics_logger: Any, env: Any, env_index: int, **more: Any) -> None:
            assert env_runner.engines and env_index >= 0 and "rl_module" in more
            assert ("prev_episode_chunks" in more) == (name == "on_episode_end")
            metrics_logger.log_value(f"my_{name}", 1, reduce="sum")
            own = episode if isinstance(episode, TextEpisode) else None
            newest = own.observations.data[-1].tolist() if own is not None and own.is_reset else []
            observed = 0 if own is None else len(own.observations)
            split = episode.custom_data["split"]
            self.heard.append(Heard(name, episode, len(episode), observed, newest, split, env is not None))

        return hear

    def _at_sample_end(self) -> Callable[..., None]:
        def hear(*, samples: list[Any], env_runner: Any, metrics_logger: Any, **more: Any) -> None:
            self.samples.append(samples)

        return hear


class Played(NamedTuple):
    algo: StarPO
    ear: Ear
    result: dict[str, Any]


@pytest.fixture(scope="module")
def played(model: Path, local_ray: None) -> Iterator[Played]:
    """One iteration of 16 episodes with an evaluation, in the driver."""
    ear = Ear()
    config = digits_config(model).callbacks(**ear.functions())
    algo = config.evaluation(evaluation_interval=1, evaluation_duration=3).build_algo()
    result = algo.train()
    yield Played(algo, ear, result)
    algo.stop()


def test_an_episode_is_created_started_stepped_and_ended_as_one_object(played: Played) -> None:
    stories: dict[str, list[Heard]] = defaultdict(list)
    for one in played.ear.heard:
        stories[one.episode.id_].append(one)
    assert len(stories) == 16 + 3 + 3
    for story in stories.values():
        assert [one.name for one in story] == [*OF_EPISODES[:3], *OF_EPISODES[2:]]
        assert [one.length for one in story] == [0, 0, 1, 2, 2]
        assert [one.num_observations for one in story] == [0, 1, 2, 3, 3]
        assert len({id(one.episode) for one in story}) == 1
        assert all(one.has_env for one in story[1:])
        # A prompt waits for its reply after the reset and after the first of two turns.
        assert [bool(one.newest) for one in story] == [False, True, True, False, False]
    assert [one.split for one in played.ear.heard].count("val") == 6 * 5


def test_its_fields_hold_text_tokens_log_probs_and_rewards(played: Played) -> None:
    decode = played.algo.env_runner.chat.tokenizer.decode
    trained = {one.episode.id_: one.episode for one in played.ear.heard if one.split == "train"}
    kept = {(t.group_id, t.outcome_seed): t for t in played.algo.last_trajectories()}
    assert len(kept) == len(trained) == 16
    for episode in trained.values():
        own = kept[episode.custom_data["group_id"], episode.custom_data["outcome_seed"]]
        assert "Number " in episode.infos.data[0]["prompt"]
        assert episode.infos.data[0]["prompt"] in decode(episode.observations.data[0])
        for t, turn in enumerate(own.turns):
            assert episode.actions.data[t].tolist() == turn.reply_ids.tolist()
            assert episode.extra_model_outputs[Columns.ACTION_LOGP].data[t].tolist() == turn.logprobs.tolist()
            assert (episode.rewards.data[t], episode.infos.data[t + 1]["reply"]) == (turn.reward, turn.reply)
            assert (episode.turns[t].prompt, episode.turns[t].reward) == (turn.prompt, turn.reward)
        np.testing.assert_array_equal(episode.trajectory.token_ids(), own.token_ids())
        assert (episode.custom_data["stop_reason"], episode.is_truncated) == ("max_turns", True)


def test_samples_are_the_episodes_of_a_batch(played: Played) -> None:
    assert [len(samples) for samples in played.ear.samples] == [16, 3, 3]
    assert {id(one) for one in played.ear.samples[0]} == {
        id(one.episode) for one in played.ear.heard if one.split == "train"
    }


def test_results_have_rllibs_shapes_and_what_callbacks_log(played: Played) -> None:
    runners, evaluation = played.result["env_runners"], played.result["evaluation"]
    returns = [trajectory.episode_return for trajectory in played.algo.last_trajectories()]
    assert runners["episode_return_mean"] == pytest.approx(np.mean(returns))
    assert (runners["num_episodes"], runners["num_env_steps_sampled"], runners["episode_len_mean"]) == (16, 32, 2)
    assert [runners[f"my_{name}"] for name in OF_EPISODES] == [16, 16, 32, 16]
    own = evaluation["env_runners"]
    assert (own["num_episodes"], own["my_on_episode_step"]) == (3, 6)
    assert own["episode_return_mean"] == pytest.approx(evaluation["sampled"]["return_mean"])


def test_evaluation_of_rllib_is_greedy_where_explore_says_so_and_may_come_before_training(model: Path) -> None:
    results: list[dict[str, Any]] = []

    def begin(*, algorithm: StarPO, **kwargs: Any) -> None:
        results.append(algorithm.evaluate())

    config = digits_config(model).evaluation(evaluation_duration=3, evaluation_config={"explore": False})
    algo = config.callbacks(on_algorithm_init=begin).build_algo()
    (found,) = results
    assert found["env_runners"]["episode_return_mean"] == pytest.approx(found["greedy"]["return_mean"])
    assert found["greedy"]["return_mean"] != found["sampled"]["return_mean"]
    algo.stop()


def test_rewards_that_the_pages_callback_pays_are_learnt_from(model: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "callbacks.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    exec(page.split("```py\n")[1].split("```")[0], names)
    plain, paid = digits_config(model).build_algo(), digits_config(model).callbacks(names["ShortReplies"]).build_algo()
    results = [algo.train() for algo in (plain, paid)]
    # Two turns of at most 8 tokens each.
    assert results[1]["env_runners"]["short_replies"] == 32
    means = [result["starpo"]["return_mean"] for result in results]
    assert means[1] == pytest.approx(means[0] + 0.2)
    plain.stop()
    paid.stop()


def test_a_callback_that_raises_ends_the_iteration_by_name_and_the_next_plays_the_same_groups(model: Path) -> None:
    spoilt = [True]

    def raise_once(*, episode: Any, **kwargs: Any) -> None:
        if spoilt and len(episode) == 2:
            spoilt.clear()
            raise ValueError("my own mistake")

    algo = digits_config(model).callbacks(on_episode_step=raise_once).build_algo()
    with pytest.raises(CallbackError, match="the callback on_episode_step raised ValueError: my own mistake"):
        algo.train()
    algo.train()
    assert {trajectory.group_id for trajectory in algo.last_trajectories()} == {"0", "1", "2", "3"}
    algo.stop()


def test_in_a_game_each_agent_has_an_episode_in_the_games_own(model: Path) -> None:
    steps: dict[str, list[float]] = defaultdict(list)
    ended: list[GameEpisode] = []

    def step(*, episode: Any, **kwargs: Any) -> None:
        steps[episode.id_ + str(id(episode))].append(episode.get_return())

    def end(*, episode: Any, **kwargs: Any) -> None:
        ended.append(episode)

    algo = game_config(model).callbacks(on_episode_step=step, on_episode_end=end).build_algo()
    result = algo.train()["env_runners"]
    assert len(ended) == 8 and len(steps) == 8
    kept = {(t.group_id, t.outcome_seed): t for t in algo.last_trajectories()}
    for episode in ended:
        assert set(episode.trajectories) == {"player_0", "player_1"} and episode.is_done
        for agent, trajectory in episode.trajectories.items():
            own = kept[trajectory.group_id, trajectory.outcome_seed]
            assert episode.module_for(agent) == own.module_id == "default_policy"
            assert episode.agent_episodes[agent].get_return() == own.episode_return
            np.testing.assert_array_equal(trajectory.token_ids(), own.token_ids())
        # What the last callback saw is what the game came to.
        assert steps[episode.id_ + str(id(episode))][-1] == episode.get_return()
    assert result["episode_return_mean"] == pytest.approx(np.mean([episode.get_return() for episode in ended]))
    algo.stop()


class OnActors(RLlibCallback):
    """Counts on the runners, raises where a file says so, and notes on the driver who came back."""

    def __init__(self) -> None:
        self.recreated: list[list[int]] = []

    def on_episode_step(self, *, episode: Any, env_runner: Any, metrics_logger: Any, **kwargs: Any) -> None:
        if Path(env_runner.config.env_config["die_once"]).with_suffix(".raise").exists():
            raise ValueError(f"{episode.turns[-1].reply!r} is none of mine")
        metrics_logger.log_value("steps_of_my_own", 1, reduce="sum")

    def on_sample_end(self, *, env_runner: Any, metrics_logger: Any, samples: list[Any], **kwargs: Any) -> None:
        metrics_logger.log_value("samples_of_my_own", len(samples), reduce="sum")

    def on_env_runners_recreated(
        self, *, algorithm: Any, env_runner_group: Any, env_runner_indices: list[int], is_evaluation: bool, **kw: Any
    ) -> None:
        assert algorithm.env_runner_group is env_runner_group and not is_evaluation
        self.recreated.append(env_runner_indices)


def test_remote_runners_call_back_raise_and_come_back(model: Path, tmp_path: Path) -> None:
    mark = tmp_path / "died"
    config = digits_config(model, env={"die_once": str(mark)}).env_runners(num_env_runners=1).callbacks(OnActors)
    algo = config.build_algo()
    (own,) = [one for one in algo.callbacks if isinstance(one, OnActors)]
    result = algo.train()
    # The runner has died within the iteration, and its work was done again.
    assert mark.exists() and own.recreated == [[1]]
    assert (result["env_runners"]["steps_of_my_own"], result["env_runners"]["samples_of_my_own"]) == (32, 16)
    mark.with_suffix(".raise").touch()
    with pytest.raises(RuntimeError, match=r"CallbackError: the callback on_episode_step raised ValueError: .* mine"):
        algo.train()
    mark.with_suffix(".raise").unlink()
    assert algo.env_runner_group.healthy_env_runner_ids() == [1], "nobody had to die for it"
    assert algo.chat([{"role": "user", "content": "Number 7"}], seed=3) == algo.chat(
        [{"role": "user", "content": "Number 7"}], seed=3
    )
    restart(algo.env_runner_group, 1)
    assert algo.train()["starpo"]["policy_version"] == 2
    # A process that is being killed may answer once more.
    assert own.recreated[1:] and {runner for ids in own.recreated for runner in ids} == {1}
    algo.stop()
