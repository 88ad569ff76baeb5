"""WebShop's pages as text, with the clickables of each."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ragen_envs.webshop.catalogue import Product

PAGE_SIZE = 10
"""Products on a page of results, as in WebShop."""
RESULTS = 50
"""Most products that a search finds, as in WebShop."""
BACK, NEXT, PREVIOUS, BUY = "back to search", "next >", "< prev", "buy now"
DETAILS = ("description", "features", "reviews")
_MAX_TITLE = 120
"""Most characters of a title in a list of results: chosen freely to keep prompts short; the item's page has it
whole.
"""


@dataclass(frozen=True)
class Page:
    """The page that the shopper is on. Immutable: a click returns another."""

    kind: str = "search"
    """Kind of page: search, results, item, one of DETAILS, or done."""
    results: tuple[Product, ...] = ()
    number: int = 1
    """Number of the page of results, from 1."""
    product: Product | None = None
    chosen: tuple[tuple[str, str], ...] = ()
    """Options chosen so far: (name, value)."""

    @property
    def shown(self) -> tuple[Product, ...]:
        """The results on this page."""
        return self.results[PAGE_SIZE * (self.number - 1) : PAGE_SIZE * self.number]

    def clickables(self) -> list[str]:
        """Returns the clickables, lower-case, in the order in which they are shown."""
        if self.kind == "results":
            turn = [PREVIOUS] * (self.number > 1) + [NEXT] * (PAGE_SIZE * self.number < len(self.results))
            return [BACK, *turn, *(product.asin.lower() for product in self.shown)]
        if self.kind == "item" and self.product is not None:
            values = [value for values in self.product.options.values() for value in values]
            return list(dict.fromkeys([BACK, PREVIOUS, *values, *DETAILS, BUY]))
        return [BACK, PREVIOUS] if self.kind in DETAILS else []

    def clicked(self, what: str, by_asin: dict[str, Product]) -> Page:
        """Returns the page after a click on `what`, one of `clickables`."""
        if what == BACK:
            return Page()
        if what == PREVIOUS and self.kind in DETAILS:
            return replace(self, kind="item")
        if what == PREVIOUS and self.kind == "item":
            return replace(self, kind="results", product=None, chosen=())
        if what in (PREVIOUS, NEXT):
            return replace(self, number=self.number + (1 if what == NEXT else -1))
        if self.kind == "results":
            return replace(self, kind="item", product=by_asin[what])
        if what == BUY:
            return replace(self, kind="done")
        if self.product is not None and (names := [n for n, values in self.product.options.items() if what in values]):
            return replace(self, chosen=tuple(sorted({**dict(self.chosen), names[0]: what}.items())))
        return replace(self, kind=what)

    def told(self) -> str:
        """Returns the page as text, with every action in the form in which it must be written."""
        if self.kind == "search":
            return "Search page\nsearch[keywords]"
        if self.kind == "results":
            pages = f"Results, page {self.number}, {len(self.results)} products"
            return "\n".join([pages, _buttons(self.clickables()[: -len(self.shown) or None]), *map(_line, self.shown)])
        if self.product is None or self.kind == "done":
            return "Bought"
        if self.kind == "item":
            return self._item(self.product)
        texts = {
            "description": self.product.description,
            "features": "\n".join(f"- {bullet.strip()}" for bullet in self.product.bullets),
            "reviews": "",
        }
        return "\n".join([self.kind.capitalize(), texts[self.kind] or "None", _buttons([BACK, PREVIOUS])])

    def _item(self, product: Product) -> str:
        chosen = dict(self.chosen)
        options = [
            f"{name}{f' (chosen: {chosen[name]})' if name in chosen else ''}: {_buttons(values)}"
            for name, values in product.options.items()
        ]
        head = [product.title, f"Price {product.price_label}, rating {product.rating}"]
        return "\n".join([*head, *options, _buttons([*DETAILS, BUY, BACK, PREVIOUS])])


def _line(product: Product) -> str:
    title = product.title if len(product.title) <= _MAX_TITLE else f"{product.title[:_MAX_TITLE]}…"
    return f"click[{product.asin.lower()}] {title}, {product.price_label}"


def _buttons(names: list[str] | tuple[str, ...]) -> str:
    return " ".join(f"click[{name}]" for name in names)
