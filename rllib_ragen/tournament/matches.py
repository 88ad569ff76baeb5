"""The pairings of a tournament, and playing them, many games at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, combinations_with_replacement

from ray.rllib.env.multi_agent_env import MultiAgentEnv

from ragen_envs.games.env import TextGameEnv
from ragen_envs.games.game import Outcome, TextGame
from ragen_envs.seeds import Stream, seed_of
from rllib_ragen.faults.watchdog import waiting
from rllib_ragen.rollout.conversation import Sampler
from rllib_ragen.rollout.env_pool import EnvPool
from rllib_ragen.rollout.episode_loop import EpisodeLoop
from rllib_ragen.tournament.match_session import Fixture, MatchSession, Record, ScoredTable

MAX_TABLES = 128
"""Most games at once: chosen freely, the default of `rollout.max_concurrent`."""


def round_robin(names: Sequence[str], game: TextGame, plays: int, seed: int) -> list[Fixture]:
    """Pairs every two players in `plays` games for either order of seats; all pairs get the same test instances.

    In a cooperative game each also plays with itself.

    Raises:
        ValueError: the game is not for two, or fewer than two players (one, in a cooperative game).
    """
    if len(game.seats) != 2:
        raise ValueError(f"{game.title} has {len(game.seats)} seats; matches are for two")
    pairs: Iterator[tuple[str, str]] = combinations(names, 2)
    if game.cooperative:
        pairs = combinations_with_replacement(names, 2)
    orders = [order for one, other in pairs for order in dict.fromkeys([(one, other), (other, one)])]
    if not orders:
        raise ValueError("matches need two players")
    return [Fixture(order, *_seeds_of(seed, i, number)) for number, order in enumerate(orders) for i in range(plays)]


def _seeds_of(seed: int, instance: int, order: int) -> tuple[int, int, int]:
    """Returns the seeds of instance, outcome and sampling; the last one differs between orders of seats."""
    return (
        seed_of(Stream.TOURNAMENT_INSTANCES, seed, instance),
        seed_of(Stream.TOURNAMENT_OUTCOME, seed, instance),
        seed_of(Stream.TOURNAMENT_SAMPLING, seed, instance, order),
    )


def play_all(
    fixtures: Sequence[Fixture],
    models: Mapping[str, Sampler],
    make_env: Callable[[], TextGameEnv],
    *,
    env_timeout_s: float | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> list[Record]:
    """Plays the fixtures, up to 128 at once → records in their order.

    A reply depends only on its own conversation and seed, so results do not depend on the number of games at once. A
    game that fails (its rules, a script, an engine's request) is recorded with its error; the others go on.

    Args:
        fixtures: the games.
        models: samplers of models by name; every other name is a scripted player's.
        make_env: makes a table; tables are reused.
        env_timeout_s: longest step of a game, including its scripts' moves; None: no limit.
        progress: called with the number of finished games.
    """
    pool: EnvPool[MultiAgentEnv] = EnvPool(lambda: ScoredTable(make_env()), threaded=env_timeout_s is not None)
    seats = make_env().possible_agents
    sessions = [MatchSession(fixture, seats, models) for fixture in fixtures]
    engines = {name: sampler.engine for name, sampler in models.items()}
    loop = EpisodeLoop(engines, pool, max_episodes=MAX_TABLES, env_timeout_s=env_timeout_s, progress=progress)
    try:
        with waiting(f"{len(fixtures)} games"):
            loop.run(sessions)
    finally:
        pool.close()
    return [session.record for session in sessions]


def score(outcome: str) -> float | None:
    """Returns the score of an outcome: 1 a win, ½ a draw, 0 a loss; None for a game that was cut off."""
    return {Outcome.WIN.value: 1.0, Outcome.DRAW.value: 0.5, Outcome.LOSS.value: 0.0}.get(outcome)
