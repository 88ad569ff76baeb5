"""The iterated prisoner's dilemma."""

from __future__ import annotations

from typing import ClassVar

from ragen_envs.games.matrix import MatrixGame

_COOPERATE, _DEFECT = "Cooperate", "Defect"


class PrisonersDilemma(MatrixGame):
    """Each round pays `reward` for mutual cooperation, `punishment` for mutual defection, else `temptation`/`sucker`.

    A win is a higher total than the other's, which cooperation cannot give; so success here is a total of at least what
    mutual cooperation pays.

    Args:
        rounds: rounds of a game, known to both seats.
        temptation, reward, punishment, sucker: payoffs, in this order of size.

    Raises:
        ValueError: payoffs that make no dilemma: temptation > reward > punishment > sucker and
            2·reward > temptation + sucker must hold.
    """

    title: str = "Prisoner's dilemma"
    zero_sum: bool = False
    actions: ClassVar[tuple[str, ...]] = (_COOPERATE, _DEFECT)

    def __init__(
        self,
        rounds: int = 5,
        temptation: float = 5.0,
        reward: float = 3.0,
        punishment: float = 1.0,
        sucker: float = 0.0,
    ) -> None:
        super().__init__(rounds)
        if not (temptation > reward > punishment > sucker and 2 * reward > temptation + sucker):
            raise ValueError(
                "payoffs must hold temptation > reward > punishment > sucker and 2·reward > temptation + sucker, got "
                f"{temptation}, {reward}, {punishment}, {sucker}"
            )
        self.temptation, self.reward, self.punishment, self.sucker = temptation, reward, punishment, sucker

    def rules(self) -> str:
        """Returns the game in words."""
        return (
            f"Prisoner's dilemma, {self.rounds} round(s): both players choose at once. Both Cooperate: {self.reward:g} "
            f"each. Both Defect: {self.punishment:g} each. One defects: {self.temptation:g} for it, {self.sucker:g} "
            "for the one that cooperates. Your reward is the sum over the rounds; get as much as you can. "
            "Actions: Cooperate, Defect."
        )

    def payoff(self, own: str, others: str) -> float:
        """Returns the reward by the classical table."""
        if others == _COOPERATE:
            return self.reward if own == _COOPERATE else self.temptation
        return self.sucker if own == _COOPERATE else self.punishment

    def success(self, seat: str) -> bool:
        """Returns whether `seat` played to the end for a total of at least that of mutual cooperation."""
        played = self.terminated(seat) and seat not in self._forfeited
        return played and self.totals[self.seats.index(seat)] >= self.rounds * self.reward
