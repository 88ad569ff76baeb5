# ruff: noqa: E501, SIM905 - the tables are easier to read with a kind a line
"""Makes the small catalogue that ships, of invented products: `python -m ragen_envs.webshop.make_catalogue`."""

from __future__ import annotations

import gzip
import json
from importlib import resources
from typing import Any

import numpy as np

from ragen_envs.tree import Tree

_SEED = 18
"""Seed of the random choices, an arbitrary number: the same products every time."""
_PER_KIND = 30
"""Products of each kind: chosen freely, three pages of results."""
_SYLLABLES = "ba bel cor da dro fen gal hol ka kel lo lum mar mi nor ol pra ra ro sel ta tor ul ven wi zan".split()
_SIZES = ("x-small", "small", "medium", "large", "x-large", "xx-large")
_COLOURS = ("black", "white", "navy", "red", "olive", "grey", "pink", "brown", "teal", "yellow")
_CLOTHES = "machine wash,hand wash,cotton spandex,long sleeve,short sleeve,slim fit,loose fit,quick drying,daily wear,button closure,elastic waist,classic fit"
_SHOES = "non slip,rubber sole,arch support,memory foam,lace up,steel toe,ankle strap,leather sole,water resistant,everyday wear"
_WOOD = "solid wood,easy assemble,space saving,metal legs,storage shelf,white finish,living room,dining room,height adjustable,heavy duty"
_SOFT = "machine washable,super soft,double sided,fade resistant,king size,queen size,eco friendly,living room,non toxic,easy clean"
_SOUND = "noise cancelling,fast charging,hands free,stereo sound,long lasting battery,water resistant,easy carry,wireless bluetooth,high definition,usb port"
_SCREEN = "high resolution,quad core,easy install,plug play,tempered glass,optical zoom,motion detection,night vision,carrying case,1080p hd"
_CARE = "sulfate free,paraben free,cruelty free,fragrance free,long lasting,dry skin,sensitive skin,coconut oil,tea tree,travel size"
_FOOD = "gluten free,non gmo,low sodium,sugar free,plant based,high protein,artificial colors free,kosher certified,dairy free,resealable bag"
_FASHION, _HOME = "Clothing, Shoes & Jewelry", "Home & Kitchen"
# Query, noun in titles, category, the shop's path, attributes, options, lowest and highest price.
_KINDS: tuple[tuple[str, str, str, str, str, dict[str, tuple[str, ...]], tuple[int, int]], ...] = (
    ("men's shirts", "Shirt", "fashion", f"{_FASHION} › Men › Shirts", _CLOTHES, {"size": _SIZES, "color": _COLOURS}, (12, 60)),
    ("women's dresses", "Dress", "fashion", f"{_FASHION} › Women › Dresses", _CLOTHES, {"size": _SIZES, "color": _COLOURS}, (18, 90)),
    ("men's pants", "Pants", "fashion", f"{_FASHION} › Men › Pants", _CLOTHES, {"size": _SIZES, "color": _COLOURS}, (20, 80)),
    ("women's sweaters", "Sweater", "fashion", f"{_FASHION} › Women › Sweaters", _CLOTHES, {"size": _SIZES, "color": _COLOURS}, (20, 95)),
    ("men's boots", "Boots", "fashion", f"{_FASHION} › Men › Shoes › Boots", _SHOES, {"size": ("8", "9", "10", "11"), "color": _COLOURS}, (35, 180)),
    ("women's sandals", "Sandals", "fashion", f"{_FASHION} › Women › Shoes › Sandals", _SHOES, {"size": ("6", "7", "8", "9"), "color": _COLOURS}, (15, 90)),
    ("console tables", "Console Table", "garden", f"{_HOME} › Furniture › Tables › Console Tables", _WOOD, {"color": ("oak", "walnut", "white", "black")}, (60, 400)),
    ("bookcases", "Bookcase", "garden", f"{_HOME} › Furniture › Bookcases", _WOOD, {"color": ("oak", "walnut", "white", "black")}, (50, 350)),
    ("bar stools", "Bar Stool", "garden", f"{_HOME} › Furniture › Stools", _WOOD, {"color": ("oak", "walnut", "grey"), "size": ("24 inch", "30 inch")}, (40, 220)),
    ("throw blankets", "Throw Blanket", "garden", f"{_HOME} › Bedding › Blankets", _SOFT, {"color": _COLOURS, "size": ("50 x 60 inch", "60 x 80 inch")}, (15, 70)),
    ("pillow covers", "Pillow Cover", "garden", f"{_HOME} › Bedding › Pillow Covers", _SOFT, {"color": _COLOURS, "size": ("16 x 16 inch", "20 x 20 inch")}, (8, 35)),
    ("bluetooth speakers", "Bluetooth Speaker", "electronics", "Electronics › Audio › Speakers", _SOUND, {"color": ("black", "blue", "red")}, (20, 160)),
    ("headphones", "Headphones", "electronics", "Electronics › Audio › Headphones", _SOUND, {"color": ("black", "white", "rose gold")}, (15, 250)),
    ("tablets", "Tablet", "electronics", "Electronics › Computers › Tablets", _SCREEN, {"size": ("32 gb", "64 gb", "128 gb")}, (90, 480)),
    ("security cameras", "Security Camera", "electronics", "Electronics › Cameras › Security", _SCREEN, {"size": ("1 pack", "2 pack", "4 pack")}, (25, 210)),
    ("shampoo", "Shampoo", "beauty", "Beauty & Personal Care › Hair Care › Shampoo", _CARE, {"size": ("8 fl oz", "16 fl oz")}, (6, 40)),
    ("body lotions", "Body Lotion", "beauty", "Beauty & Personal Care › Skin Care › Lotions", _CARE, {"scent": ("lavender", "vanilla", "unscented")}, (7, 45)),
    ("lip balms", "Lip Balm", "beauty", "Beauty & Personal Care › Makeup › Lips", _CARE, {"color": ("rose", "nude", "berry")}, (4, 25)),
    ("protein bars", "Protein Bar", "grocery", "Grocery › Snacks › Bars", _FOOD, {"flavor": ("chocolate", "peanut butter", "lemon"), "size": ("6 count", "12 count")}, (8, 40)),
    ("herbal teas", "Herbal Tea", "grocery", "Grocery › Beverages › Tea", _FOOD, {"flavor": ("mint", "ginger", "hibiscus")}, (5, 30)),
)  # fmt: skip


def make_products() -> list[Tree]:
    """Returns the rows of the shipped catalogue."""
    rng = np.random.default_rng(_SEED)
    rows = [_row(rng, kind, place) for place, kind in enumerate(kind for kind in _KINDS for _ in range(_PER_KIND))]
    return [rows[int(place)] for place in rng.permutation(len(rows))]


def _row(rng: np.random.Generator, kind: tuple[Any, ...], place: int) -> Tree:
    query, noun, category, path, attributes, all_options, (low, high) = kind
    own = [str(one) for one in rng.choice(attributes.split(","), int(rng.integers(4, 7)), replace=False)]
    options = {name: _some(rng, values) for name, values in all_options.items()}
    brand = "".join(str(one) for one in rng.choice(_SYLLABLES, 2)).capitalize()
    price = round(float(rng.uniform(low, high)), 2)
    asked = own[: int(rng.integers(2, 4))]
    first, second, *others = (own[int(index)] for index in rng.permutation(len(own)))
    return {
        "asin": f"R{place:03d}{''.join(chr(65 + int(n)) for n in rng.integers(0, 26, 6))}",
        "Title": f"{brand} {noun}, {first.title()}, {second.title()}",
        "Description": f"This {noun.lower()} by {brand} is made for those who look for {', '.join(others)}.",
        "BulletPoints": [f"{one.capitalize()}: what you expect of {query}." for one in own],
        "Price": f"${price}",
        "pricing": [price],
        "Rating": str(round(float(rng.uniform(3, 5)), 1)),
        "category": category,
        "query": query,
        "product_category": path,
        "options": options,
        "Attributes": own,
        "title_nouns": sorted({brand.lower(), *noun.lower().split()}),
        "instruction": f"Find me {', '.join(asked[:-1])} {query} with {asked[-1]}",
        "instruction_attributes": asked,
    }


def _some(rng: np.random.Generator, values: tuple[str, ...]) -> list[str]:
    """Draws two to four of `values`, in their order."""
    count = int(rng.integers(2, min(4, len(values)) + 1))
    return [values[int(place)] for place in sorted(rng.choice(len(values), count, replace=False))]


def main() -> None:
    """Writes the file, the same bytes each time."""
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in make_products())
    with resources.as_file(resources.files("ragen_envs.webshop").joinpath("catalogue.jsonl.gz")) as path:
        path.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
