"""Negotiation: share a pool of items, with cheap talk between the offers, in words without a given meaning."""

from __future__ import annotations

from string import ascii_uppercase

from ragen_envs.games.sharing import SharingGame, keep

_ITEMS = 3
"""Kinds of items, as OpenSpiel's negotiation has by default."""
_OFFERS = 6**_ITEMS
"""Number of OpenSpiel's offers, a digit 0 to 5 for each kind of item; Agree and the messages are numbered after
them.
"""


class Negotiation(SharingGame):
    """OpenSpiel's negotiation, after Cao et al. (2018): offers, each followed by a message of cheap talk.

    Pool (0 to 5 of a kind), values (0 to 10 an item) and the number of turns (4 to 10, known to both) are drawn anew
    for each instance, so the whole pool may be worth more to one seat than to the other, or nothing. A turn is an offer
    and a message, two replies; the last turn's offer can no longer be accepted.

    Args:
        message_length: words of a message; 0: no messages.
        words: number of different words, called A, B, …

    Raises:
        ValueError: a setting out of its range, or open-spiel is not installed.
    """

    def __init__(self, message_length: int = 1, words: int = 5) -> None:
        if not 0 <= message_length <= 3:
            raise ValueError(f"message_length must be 0…3, got {message_length}")
        if not 1 <= words <= len(ascii_uppercase):
            raise ValueError(f"words must be 1…{len(ascii_uppercase)}, got {words}")
        talk = f"utterance_dim={message_length},num_symbols={words}" if message_length else "enable_utterances=False"
        super().__init__(f"negotiation({talk})")
        self.message_length, self.words = message_length, words

    def rules(self) -> str:
        """Returns the game in words."""
        talk, message = "", ""
        if self.message_length:
            letters = ", ".join(ascii_uppercase[: self.words])
            talk = (
                f" After each offer you send a message of {self.message_length} of the words {letters}; what it means "
                "is for you two to find out, and it costs nothing."
            )
            message = f", Say {'-'.join(['word'] * self.message_length)}"
        return (
            "Negotiation: two players share books, hats and balls. Each has its own values of them, which the other "
            "does not know. In turn, say what you want to keep: Keep 1-0-2 is 1 book, no hat, 2 balls for you, the "
            f"rest for the other. {self.AGREE} accepts the other's last offer.{talk} Without agreement when the turns "
            "are used up, both get 0. Your reward is what you get, by your values. Actions: Keep books-hats-balls, "
            f"{self.AGREE}{message}."
        )

    def observe(self, seat: str) -> str:
        """Returns the pool, the seat's values, the turns there are, and all offers and messages."""
        turns = f"Turns: {self.max_turns}, {len(self.offers)} used"
        lines = [self._who(seat), self._pool_told(), self._values_told(seat), turns]
        messages = self.messages
        for number, offer in enumerate(self.offers):
            said = f", {messages[number]}" if number < len(messages) else ""
            lines.append(f"{self._speaker(seat, number)}: {keep(offer)}{said}")
        if self.agreed:
            lines.append(f"{self._speaker(seat, len(self.offers))}: {self.AGREE}")
        return "\n".join(lines)

    @property
    def pool(self) -> tuple[int, ...]:
        """Number of items of each kind."""
        return tuple(self._state.item_pool())

    def values(self, seat: str) -> tuple[int, ...]:
        """Returns the value of one item of each kind to `seat`."""
        # OpenSpiel draws values again if all are 0, and appends them to the old ones.
        return tuple(self._state.agent_utils(self.seats.index(seat))[:_ITEMS])

    @property
    def max_turns(self) -> int:  # type: ignore[override]  # each instance has its own
        """Turns of both seats together, read from OpenSpiel's text, the only place that has them."""
        return int(str(self._state).splitlines()[0].removeprefix("Max steps: "))

    @property
    def offers(self) -> tuple[tuple[int, ...], ...]:
        """Items of each kind that each offer keeps for the seat that made it, oldest first."""
        return tuple(_digits(action, 6, _ITEMS) for action in self._moves if action < _OFFERS)

    @property
    def messages(self) -> tuple[str, ...]:
        """All messages, oldest first."""
        return tuple(self._message(action) for action in self._moves if action > _OFFERS)

    @property
    def agreed(self) -> bool:
        """Whether the last offer was accepted."""
        return _OFFERS in self._moves

    @property
    def _moves(self) -> list[int]:
        """OpenSpiel's numbers of the seats' actions, without the deal before them."""
        return list(self._state.history())[1:]

    @property
    def _least(self) -> float:
        """The return without agreement. OpenSpiel's minimum is −150, which the game cannot give."""
        return 0.0

    def _message(self, action: int) -> str:
        numbers = _digits(action - _OFFERS - 1, self.words, self.message_length)
        return f"Say {'-'.join(ascii_uppercase[number] for number in numbers)}"

    def _action_name(self, index: int, action: int) -> str:
        if action == _OFFERS:
            return self.AGREE
        return keep(_digits(action, 6, _ITEMS)) if action < _OFFERS else self._message(action)


def _digits(number: int, base: int, length: int) -> tuple[int, ...]:
    """Returns the last `length` digits of `number`, the highest first."""
    return tuple(number // base**place % base for place in reversed(range(length)))
