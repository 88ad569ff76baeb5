"""Simple scripted players of the larger games, which a trained policy should at least beat."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from ragen_envs.games.chances import Chances, evenly
from ragen_envs.games.chess import PIECE_VALUES, Chess
from ragen_envs.games.frozen_lake_pair import FrozenLakePair
from ragen_envs.games.game import TextGame
from ragen_envs.games.hanabi import Card, Hanabi
from ragen_envs.games.sharing import SharingGame, worth


def pathfinder(game: TextGame, seat: str) -> Chances:
    """Takes the first step of a shortest path over the ice; two such players never block each other for good."""
    assert isinstance(game, FrozenLakePair)
    path = game.path(seat)
    return evenly(path[:1] if path else game.legal_actions(seat))


def greedy_chess(game: TextGame, seat: str) -> Chances:
    """Mates if it can; else makes the capture with the largest gain, less the moved piece if it can be recaptured."""
    assert isinstance(game, Chess)
    gains = {action: _gain(game.board, action) for action in game.legal_actions(seat)}
    return evenly(action for action, gain in gains.items() if gain == max(gains.values()))


def haggler(game: TextGame, seat: str) -> Chances:
    """Demands all at first and half in the end, linearly; of the offers worth that much it makes the most generous.

    Its messages are random, and it ignores the other's.
    """
    assert isinstance(game, SharingGame)
    legal, values = game.legal_actions(seat), game.values(seat)
    turns, last_turn = len(game.offers), game.max_turns - 1
    wanted = game.whole(seat) * (1 - Fraction(turns, 2 * last_turn))
    if game.AGREE in legal and (game.share(seat) >= wanted or turns >= last_turn):
        return {game.AGREE: Fraction(1)}
    kept = {action: items for action in legal if (items := game.kept(action)) is not None}
    enough = {action: (worth(items, values), sum(items)) for action, items in kept.items()}
    enough = {action: rank for action, rank in enough.items() if rank[0] >= wanted}
    return evenly([action for action, rank in enough.items() if rank == min(enough.values())] or legal)


def hinter(game: TextGame, seat: str) -> Chances:
    """Plays a card that surely fits, else hints at a card of the next player that fits, else discards the oldest."""
    assert isinstance(game, Hanabi)
    legal, piles, own = game.legal_actions(seat), game.piles(seat), game.hands(seat)[0]
    for number, card in enumerate(own, start=1):
        if all(piles[colour] == rank - 1 for colour, rank in card.possible):
            return {f"Play {number}": Fraction(1)}
    for card in game.hands(seat)[1]:
        if hint := _hint(card, piles, legal):
            return {hint: Fraction(1)}
    for number, card in enumerate(own, start=1):
        if f"Discard {number}" in legal and all(rank <= piles[colour] for colour, rank in card.possible):
            return {f"Discard {number}": Fraction(1)}
    return {"Discard 1": Fraction(1)} if "Discard 1" in legal else evenly(a for a in legal if a.startswith("Hint"))


def _hint(card: Card, piles: dict[str, int], legal: list[str]) -> str:
    """Returns the hint that says most about a card that fits and is not yet known to fit; empty if there is none."""
    colour, rank = card.name[:1], int(card.name[1:])
    if piles[colour] != rank - 1 or all(piles[c] == r - 1 for c, r in card.possible):
        return ""
    by_rank = sum(r == rank for _, r in card.possible)
    by_colour = sum(c == colour for c, _ in card.possible)
    hints = [(by_rank, Hanabi.hint(str(rank))), (by_colour, Hanabi.hint(colour))]
    useful = [(left, hint) for left, hint in hints if left < len(card.possible) and hint in legal]
    return min(useful)[1] if useful else ""


def _gain(board: Any, action: str) -> int:
    """Returns the value that a move captures, less the moved piece if it can be recaptured; 100 for mate."""
    move = board.parse_uci(action)
    mover, taken = board.piece_type_at(move.from_square), board.piece_type_at(move.to_square)
    gain = PIECE_VALUES[taken] if taken else int(board.is_en_passant(move))
    promoted = PIECE_VALUES[move.promotion] - 1 if move.promotion else 0
    board.push(move)
    mate, risky = board.is_checkmate(), bool(board.attackers(board.turn, move.to_square))
    board.pop()
    at_risk = PIECE_VALUES[move.promotion or mover] if risky else 0
    return 100 if mate else gain + promoted - at_risk
