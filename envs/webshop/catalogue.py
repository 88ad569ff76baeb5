"""WebShop's products: read from a user's folder, or the small catalogue that ships."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path

import numpy as np

from ragen_envs.json_lines import only_file, read_rows
from ragen_envs.retrieval.bm25 import BM25
from ragen_envs.tree import Tree
from ragen_envs.webshop.original import read_original

_WORD = re.compile(r"[a-z][a-z'’-]+")
_FUNCTION_WORDS = """
a an and are as at be by can for from in into is it its not of on or our per pcs so that the their this to up very with
without you your
"""
_NO_NOUNS = frozenset(_FUNCTION_WORDS.split())


@dataclass(frozen=True)
class Product:
    """One product, with the fields of WebShop's engine."""

    asin: str
    title: str
    category: str
    query: str
    product_category: str
    price: float
    price_label: str
    rating: str
    options: dict[str, tuple[str, ...]]
    """Values by option name, lower-case."""
    attributes: tuple[str, ...]
    bullets: tuple[str, ...]
    description: str
    title_nouns: frozenset[str]
    instruction: str | None
    instruction_attributes: tuple[str, ...]


@dataclass(frozen=True)
class Catalogue:
    """All products in order, with a search index over them."""

    products: tuple[Product, ...]
    by_asin: dict[str, Product]
    """Products by lower-case ASIN."""
    index: BM25

    def search(self, query: str, count: int) -> list[Product]:
        """Returns the `count` best products, best first."""
        return [self.products[place] for place in self.index.top(query, count)]


@lru_cache(maxsize=2)
def load_catalogue(folder: str | None) -> Catalogue:
    """Returns the catalogue in `folder`, or the shipped one.

    A folder holds `products*.jsonl` (or .gz), one product a line, or the benchmark's own files
    `items_shuffle*.json` and `items_ins_v2*.json`.

    Raises:
        ValueError: no such folder or files, a broken row (file and line), no product with an instruction, or missing
            packages.
    """
    if folder is None:
        with resources.as_file(resources.files("ragen_envs.webshop").joinpath("catalogue.jsonl.gz")) as file:
            products = read_rows(file, product_of)
    elif Path(folder).expanduser().is_dir() and any(Path(folder).expanduser().glob("items_shuffle*.json")):
        products = read_original(Path(folder).expanduser(), product_of)
    else:
        products = read_rows(only_file(folder, "products"), product_of)
    by_asin = {product.asin.lower(): product for product in products}
    if len(by_asin) < len(products):
        raise ValueError(f"{folder}: {len(products) - len(by_asin)} products have the asin of another")
    if not any(product.instruction for product in products):
        raise ValueError(f"{folder}: no product has an instruction")
    index = BM25([_indexed(product) for product in products], "webshop", "the environment webshop")
    return Catalogue(tuple(products), by_asin, index)


def product_of(row: Tree) -> Product:
    """Returns the product in one row of `products*.jsonl`. Raises KeyError, TypeError or ValueError."""
    pricing = [float(price) for price in row["pricing"]] or [100.0]
    title = str(row["Title"])
    instruction = row.get("instruction")
    wanted = tuple(map(str, row.get("instruction_attributes") or ()))
    if instruction and not wanted:
        raise ValueError("has an instruction without instruction_attributes")
    return Product(
        asin=str(row["asin"]),
        title=title,
        category=str(row["category"]),
        query=str(row["query"]).lower().strip(),
        product_category=str(row["product_category"]),
        price=pricing[0] if len(pricing) == 1 else _price_between(str(row["asin"]), *pricing[:2]),
        price_label=str(row["Price"]),
        rating=str(row["Rating"]),
        options={str(name).lower(): tuple(map(str, values)) for name, values in row["options"].items() if values},
        attributes=tuple(map(str, row["Attributes"])),
        bullets=tuple(map(str, row["BulletPoints"])),
        description=str(row["Description"]),
        title_nouns=frozenset(row["title_nouns"]) if "title_nouns" in row else title_nouns(title),
        instruction=str(instruction).strip(".") if instruction else None,
        instruction_attributes=wanted,
    )


def title_nouns(title: str) -> frozenset[str]:
    """Returns the words of a title that count as nouns: all but numbers and function words.

    WebShop takes the nouns and proper nouns of spaCy's large English model, which in titles, where most words are
    capitalised, are nearly all words. A row with its own `title_nouns` keeps them.
    """
    return frozenset(word for word in _WORD.findall(title.lower()) if word not in _NO_NOUNS)


def product_generator(asin: str, use: str) -> np.random.Generator:
    """Returns the generator of one random choice per product, the same in every process."""
    digest = hashlib.sha256(f"{asin} {use}".encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "big"))


def _price_between(asin: str, low: float, high: float) -> float:
    """Returns the price of a product with a price range, drawn between its two bounds in any order."""
    return low + (high - low) * float(product_generator(asin, "price").random())


def _indexed(product: Product) -> str:
    """Returns the text that the benchmark indexes: title, description, first bullet point and options."""
    options = ", and ".join(f"{name}: {', '.join(values)}" for name, values in product.options.items())
    return " ".join([product.title, product.description, *product.bullets[:1], options])
