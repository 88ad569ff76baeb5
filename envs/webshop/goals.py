"""The benchmark's synthetic goals, and its score of a purchase."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import product as combinations_of

from ragen_envs.extras import import_extra
from ragen_envs.webshop.catalogue import Product, product_generator

_PRICE_STEPS = tuple(10.0 * tens for tens in range(1, 100))
NO_LIMIT = 1_000_000.0
"""Price limit of products that are too expensive to have one, as in WebShop's goal.py."""
_HIT = 85
"""Similarity in percent above which two texts count as the same: the threshold of WebShop's goal.py."""
# The benchmark's own list (web_agent_site/engine/normalize.py, MIT licence): which colours count as the same.
_COLOUR_NAMES = """
alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown burgundy camel camo
caramel champagne charcoal cheetah chestnut chocolate christmas coffee cognac copper coral cranberry cream crystal
dark denim eggplant elephant espresso fuchsia gold granite grape graphite grass gray green grey heather indigo ivory
ivy khaki lavender lemon leopard light lilac lime magenta maroon mauve merlot midnight mint mocha multicolor
mushroom mustard natural navy nude olive orange peach pewter pink plum purple rainbow red rose royal rust sand
sapphire seashell silver skull slate steel stone stonewash sunflower tan taupe teal tiger turquoise violet walnut
wheat white wine yellow
"""
_COLOURS = tuple(_COLOUR_NAMES.split())


@dataclass(frozen=True)
class Goal:
    """A product to buy, with the wanted options and a price limit."""

    product: Product
    options: tuple[tuple[str, str], ...]
    """Pairs (name, value), sorted by name."""
    price_limit: float

    @property
    def instruction(self) -> str:
        """The instruction to the buyer."""
        options = ", and ".join(f"{name}: {value}" for name, value in self.options)
        price = "" if self.price_limit == NO_LIMIT else f", and price lower than {self.price_limit:.2f} dollars"
        return f"{self.product.instruction}{f' with {options}' if options else ''}{price}"


def goals_of(product: Product) -> list[Goal]:
    """Returns one goal for every combination of the product's options; none where it has no instruction."""
    if product.instruction is None:
        return []
    names = sorted(product.options)
    limit = _price_limit(product)
    chosen = combinations_of(*(product.options[name] for name in names))
    return [Goal(product, tuple(zip(names, values, strict=True)), limit) for values in chosen]


def _price_limit(product: Product) -> float:
    """Draws two of the next four multiples of 10 above the price, once for a product → the larger one."""
    above = [step for step in _PRICE_STEPS if step > product.price][:4]
    if len(above) < 2:
        return NO_LIMIT
    return float(max(product_generator(product.asin, "limit").choice(above, 2, replace=False)))


def score(bought: Product, chosen: Iterable[str], goal: Goal) -> float:
    """Returns the benchmark's reward in [0, 1]: the kind of product times the share of what is met."""
    hits = _attribute_hits(bought, goal.product.instruction_attributes)
    hits += _option_hits(chosen, [value for _, value in goal.options])
    hits += bought.price <= goal.price_limit
    return _kind(bought, goal.product) * hits / (len(goal.product.instruction_attributes) + len(goal.options) + 1)


def _kind(bought: Product, wanted: Product) -> float:
    """Returns r_type: 1, or less if query, categories and title show another kind of product."""
    overlap = len(bought.title_nouns & wanted.title_nouns) / len(wanted.title_nouns) if wanted.title_nouns else 0.2
    shared = _categories(bought) & _categories(wanted)
    if overlap == 0.0:
        return 0.0
    if overlap < 0.1:
        return 0.1
    return 1.0 if bought.query == wanted.query or len(shared) >= 2 or overlap > 0.2 else 0.5


def _categories(product: Product) -> set[str]:
    return {part.strip() for part in product.product_category.split("›")}


def _attribute_hits(bought: Product, wanted: Iterable[str]) -> int:
    texts = (bought.title.lower(), " ".join(bought.bullets).lower(), bought.description.lower())
    return sum(
        any(alike(own, attribute) for own in bought.attributes) or any(attribute in text for text in texts)
        for attribute in wanted
    )


def _option_hits(chosen: Iterable[str], wanted: Iterable[str]) -> int:
    own = [_colour(value) for value in chosen]
    return sum(any(alike(value, _colour(goal)) for value in own) for goal in wanted)


def _colour(value: str) -> str:
    """Returns the first colour name in `value`, or `value` itself if there is none."""
    return next((colour for colour in _COLOURS if colour in value), value)


@lru_cache(maxsize=65_536)
def alike(one: str, other: str) -> bool:
    """Returns whether thefuzz's token_set_ratio is above 85: on lower-case words, rounded to a whole number."""
    rapidfuzz = import_extra("rapidfuzz", "rapidfuzz", "webshop", "the environment webshop")
    words = rapidfuzz.utils.default_process
    return bool(round(rapidfuzz.fuzz.token_set_ratio(one, other, processor=words)) > _HIT)
