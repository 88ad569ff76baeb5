"""The world keeps the contract of every environment, and pays what its rules say."""

from __future__ import annotations

from rllib_ragen import check_text_env, make_text_env

WORLD = "new_world.world:NewWorld"


def test_the_contract_is_kept() -> None:
    assert check_text_env(lambda: make_text_env(WORLD))


def test_the_target_is_paid_once_and_ends_the_episode() -> None:
    env = make_text_env(WORLD)
    env.reset(seed=3)
    way = env.task.solve()
    assert way is not None
    _, reward, terminated, _, info = env.step(f"<think>the way</think><answer>{' || '.join(way)}</answer>")
    assert (reward, terminated, info["success"]) == (1.0, True, True)


def test_an_action_short_of_the_target_gives_nothing() -> None:
    env = make_text_env(WORLD)
    env.reset(seed=3)
    _, reward, terminated, _, info = env.step("<think>a try</think><answer>Up</answer>")
    assert (reward, terminated, info["valid"]) == (0.0, False, True)
