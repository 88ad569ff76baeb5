"""Hanabi: a cooperative card game, in which each player sees all cards but its own."""

from __future__ import annotations

from typing import NamedTuple

from ragen_envs.games.open_spiel import OpenSpielGame

_COLOURS = {"R": "Red", "Y": "Yellow", "G": "Green", "W": "White", "B": "Blue"}
_LABELS = {"Life tokens": "Lives", "Info tokens": "Hints", "Fireworks": "Piles"}
VARIANTS: dict[str, dict[str, int]] = {
    "full": {"colors": 5, "ranks": 5, "hand_size": 5, "max_information_tokens": 8, "max_life_tokens": 3},
    "small": {"colors": 2, "ranks": 5, "hand_size": 2, "max_information_tokens": 3, "max_life_tokens": 1},
    "very_small": {"colors": 1, "ranks": 5, "hand_size": 2, "max_information_tokens": 3, "max_life_tokens": 1},
}
"""Variants of the Hanabi Learning Environment (Bard et al., 2020): parameters by name."""


class Card(NamedTuple):
    """One card of a hand."""

    name: str
    """Letter of the colour, and rank; empty if the observer does not see the card."""
    possible: tuple[tuple[str, int], ...]
    """Every (colour letter, rank) that the hints to its holder allow."""

    def told(self, number: int) -> str:
        """Returns the card as a line of a prompt."""
        colours, ranks = (sorted(set(part), key=str) for part in zip(*self.possible, strict=True))
        known = f"can be {''.join(colours)} {''.join(map(str, ranks))}"
        return f"{number}: {self.name}, {known}" if self.name else f"{number}: {known}"


class Hanabi(OpenSpielGame):
    """OpenSpiel's Hanabi for two to five. All seats are paid 1 for each card that is played in its place.

    When the last life is lost, all points are lost. The game counts as won with a score of `target`.

    Args:
        variant: full, small or very_small: how many colours, cards in a hand, hints and lives.
        players: seats, 2 to 5.
        target: score from which the game counts as won; None: half of the perfect one, which is 5 a colour.

    Raises:
        ValueError: a setting out of its range, or open-spiel is not installed.
    """

    def __init__(self, variant: str = "small", players: int = 2, target: int | None = None) -> None:
        if variant not in VARIANTS:
            raise ValueError(f"variant must be {' or '.join(VARIANTS)}, got {variant!r}")
        if not 2 <= players <= 5:
            raise ValueError(f"players must be 2…5, got {players}")
        most = 5 * VARIANTS[variant]["colors"]
        if target is not None and not 1 <= target <= most:
            raise ValueError(f"target must be 1…{most}, got {target}")
        deck = VARIANTS[variant]
        # OpenSpiel's hands are smaller from four players on.
        numbers = deck | {"players": players, "hand_size": min(deck["hand_size"], 4 if players > 3 else 5)}
        # Bad numbers would abort the process in OpenSpiel: none gets this far.
        given = ",".join(f"{key}={value}" for key, value in numbers.items())
        super().__init__(f"hanabi({given})", target or (most + 1) // 2)
        self.variant, self.numbers = variant, numbers

    def rules(self) -> str:
        """Returns the game in words."""
        colours = [name for letter, name in _COLOURS.items() if letter in list(_COLOURS)[: self.numbers["colors"]]]
        return (
            f"Hanabi for {len(self.seats)} players who win or lose together. Cards have a colour "
            f"({', '.join(colours)}) and a rank 1 to 5; of each colour there are three 1s, two each of 2, 3, 4, and "
            "one 5. You see the hands of the others, not yours. Build a pile for each colour, from 1 to 5 in order. In "
            "turn: Play a card of your hand (if it does not come next on its pile, a life is lost); Discard one (gives "
            "back a hint); or spend a hint to tell a player which of its cards have a colour or a rank. All get 1 for "
            f"each card on a pile, and lose all of it with the last life; {self.target:g} is a win. "
            f"Lives: {self.numbers['max_life_tokens']}, hints: {self.numbers['max_information_tokens']}. Cards are "
            "numbered from the left. Actions: Play 1, Discard 1, Hint next Red, Hint next 1; next is the player after "
            "you, next+1 the one after that."
        )

    def observe(self, seat: str) -> str:
        """Returns lives, hints, piles, the others' hands, and what each player knows of its own cards."""
        told = _sections(self._told(seat))
        lines = [f"{label}: {told[name]}" for name, label in _LABELS.items()]
        start = self.seats.index(seat)
        seats = self.seats[start:] + self.seats[:start]
        for distance, hand in enumerate(self.hands(seat)):
            lines.append("Your hand:" if not distance else f"Hand of {_next(distance)} ({seats[distance]}):")
            lines += [card.told(number) for number, card in enumerate(hand, start=1)]
        return "\n".join(
            [*lines, f"Cards in the deck: {told['Deck size']}", f"Discarded: {told['Discards'] or 'none'}"]
        )

    def piles(self, seat: str) -> dict[str, int]:
        """Returns the rank of the highest card on each pile, by the colour's letter."""
        return {pile[0]: int(pile[1:]) for pile in _sections(self._told(seat))["Fireworks"].split()}

    def hands(self, seat: str) -> list[list[Card]]:
        """Returns the cards of each player from `seat` on, oldest first; those of `seat` have no names."""
        hands = self._told(seat).partition("Hands:")[2].partition("Deck size:")[0]
        return [[_card(line) for line in hand.splitlines() if "||" in line] for hand in hands.split("-----")]

    @staticmethod
    def hint(value: str) -> str:
        """Returns the action that hints a rank or the letter of a colour to the next player."""
        return f"Hint {_next(1)} {_COLOURS.get(value, value)}"

    def _told(self, seat: str) -> str:
        return str(self._state.observation_string(self.seats.index(seat)))

    def _action_name(self, index: int, action: int) -> str:
        kind, *words = super()._action_name(index, action).strip("()").split()
        if kind in ("Play", "Discard"):
            return f"{kind} {int(words[0]) + 1}"
        _, distance, what, value = words
        return f"Hint {_next(int(distance))} {_COLOURS[value] if what == 'color' else value}"


def _next(distance: int) -> str:
    return "next" if distance == 1 else f"next+{distance - 1}"


def _sections(told: str) -> dict[str, str]:
    """Returns the text after each label of OpenSpiel's observation."""
    pairs = (line.partition(":") for line in told.splitlines() if ":" in line)
    return {name: value.strip() for name, _, value in pairs}


def _card(line: str) -> Card:
    """Reads `R2 || XX|RY12345`: the card (`XX` if it is the seat's own), its hints, what it can be."""
    name, _, known = line.partition(" || ")
    possible = known.partition("|")[2].strip()
    ranks = [int(c) for c in possible if c.isdigit()]
    pairs = tuple((colour, rank) for colour in possible if colour.isalpha() for rank in ranks)
    return Card("" if name.strip() == "XX" else name.strip(), pairs)
