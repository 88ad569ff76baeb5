"""Floor and ceiling of the games that an evaluation plays."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from ragen_envs.games.baselines import BEST, settings_key, shipped_matches
from ragen_envs.games.registry import make_game


@dataclass(frozen=True)
class GameScale:
    """Success rates in [0, 1], mean over the seats, against the random player, or in a cooperative game with itself."""

    random: float
    """Success of the random player."""
    best: float | None
    """Success of the best possible player; None if unknown."""
    scripted: tuple[str, float] | None
    """The best simple scripted player, and its success."""
    together: bool = False
    """Whether the game is cooperative."""


def game_scale(game: str, settings: Mapping[str, object]) -> GameScale | None:
    """Returns the shipped success rates of a game with these settings, or None."""
    matches = shipped_matches().get(settings_key(game, dict(settings)))
    if matches is None:
        return None
    together = make_game(game, **settings).cooperative
    found: dict[str, list[float]] = {}
    for match in matches:
        if match.opponent == (match.player if together else "uniform"):
            found.setdefault(match.player, []).append(match.success)
    means = {player: statistics.fmean(successes) for player, successes in found.items()}
    scripted = next(((name, mean) for name, mean in means.items() if name not in ("uniform", BEST)), None)
    return GameScale(means["uniform"], means.get(BEST), scripted, together)
