"""Rock-paper-scissors, several rounds."""

from __future__ import annotations

from typing import ClassVar

from ragen_envs.games.matrix import MatrixGame


class RockPaperScissors(MatrixGame):
    """+1 for a round won, −1 for a round lost, 0 for equal choices."""

    title: str = "Rock-paper-scissors"
    actions: ClassVar[tuple[str, ...]] = ("Rock", "Paper", "Scissors")

    def rules(self) -> str:
        """Returns the game in words."""
        return (
            f"Rock-paper-scissors, {self.rounds} round(s): both players choose at once. Rock beats Scissors, Scissors "
            "beats Paper, Paper beats Rock. Reward of a round: 1 for who wins it, -1 for who loses it, 0 if both "
            "choose the same. The higher total wins. Actions: Rock, Paper, Scissors."
        )

    def payoff(self, own: str, others: str) -> float:
        """Returns +1, 0 or −1: each action beats the one before it."""
        ahead = (self.actions.index(own) - self.actions.index(others)) % 3
        return (0.0, 1.0, -1.0)[ahead]
