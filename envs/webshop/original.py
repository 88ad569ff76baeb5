"""The benchmark's own files: items_shuffle*.json (products) and items_ins_v2*.json (attributes, instructions)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from ragen_envs.tree import Tree

T = TypeVar("T")
_NO_ATTRIBUTE = "DUMMY_ATTR"
_MAX_ASIN = 10
"""Most characters of an ASIN: WebShop's engine.py leaves out products with longer ones."""


def read_original(folder: Path, make: Callable[[Tree], T]) -> list[T]:
    """Applies `make` to every product, in order → its results; repeated and invalid ASINs are left out.

    Raises:
        ValueError: a missing or broken file, or a broken product (its place in the file).
    """
    items, attributes = _read(folder, "items_shuffle"), _read(folder, "items_ins_v2")
    if not isinstance(items, list) or not isinstance(attributes, dict):
        raise ValueError(f"{folder}: items_shuffle*.json must hold a list, and items_ins_v2*.json an object")
    made: dict[str, T] = {}
    for place, item in enumerate(items):
        try:
            asin = str(item["asin"])
            if asin != "nan" and len(asin) <= _MAX_ASIN and asin not in made:
                made[asin] = make(_row(item, attributes.get(asin, {})))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(
                f"{folder}, items_shuffle*.json, product {place}: {type(error).__name__} {error}"
            ) from None
    return list(made.values())


def _read(folder: Path, stem: str) -> Any:
    found = sorted(folder.glob(f"{stem}*.json"))
    if len(found) != 1:
        raise ValueError(f"{folder} must hold one file {stem}*.json; there are {len(found)}")
    try:
        return json.loads(found[0].read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{found[0]} cannot be read: {error}") from None


def _row(item: Tree, attributes: Tree) -> Tree:
    """Returns the product as a row of `products*.jsonl`."""
    prices = [float(re.sub(r"[^\d.]", "", price)) for price in (item.get("pricing") or "$100.0").split("$")[1:]][:2]
    small = item["small_description"]
    return {
        "asin": item["asin"],
        "Title": item["name"],
        "Description": item["full_description"] or "",
        "BulletPoints": small if isinstance(small, list) else [small],
        "Price": " to ".join(f"${price}" for price in prices),
        "pricing": prices,
        "Rating": "N.A.",
        "category": item["category"],
        "query": item["query"],
        "product_category": item["product_category"],
        "options": {
            name.lower(): [content["value"].strip().replace("/", " | ").lower() for content in contents]
            for name, contents in (item.get("customization_options") or {}).items()
            if contents is not None
        },
        "Attributes": attributes.get("attributes", [_NO_ATTRIBUTE]),
        "instruction": attributes.get("instruction"),
        "instruction_attributes": attributes.get("instruction_attributes"),
    }
