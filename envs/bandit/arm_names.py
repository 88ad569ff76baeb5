"""Names of the arms. Each pair is (a thing that sounds safe, a thing that sounds risky); no name occurs twice.

Splits go by pair, not by a hash: with so few pairs a hash could leave a set empty.
"""

from __future__ import annotations

from ragen_envs.splits import Split

Pair = tuple[str, str]
"""A safe-sounding name and a risky-sounding one, in this order."""

PAIRS: dict[Split, tuple[Pair, ...]] = {
    Split.TRAIN: (
        ("Savings", "Lottery"),
        ("Librarian", "Gambler"),
        ("Footpath", "Tightrope"),
        ("Harbour", "Hurricane"),
        ("Tortoise", "Rocket"),
        ("Pension", "Jackpot"),
        ("Umbrella", "Lightning"),
        ("Shield", "Dynamite"),
        ("Accountant", "Daredevil"),
        ("Puddle", "Volcano"),
        ("Handrail", "Trapeze"),
        ("Lullaby", "Roulette"),
    ),
    Split.VAL: (
        ("Bond", "Casino"),
        ("Gardener", "Stuntman"),
        ("Pond", "Rapids"),
        ("Sofa", "Skydive"),
    ),
    Split.TEST: (
        ("Candle", "Firework"),
        ("Vault", "Goldrush"),
        ("Notary", "Pirate"),
        ("Hammock", "Avalanche"),
    ),
}
