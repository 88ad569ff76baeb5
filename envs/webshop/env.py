"""WebShop: find and buy what an instruction asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, get_args

import gymnasium as gym
import numpy as np

from ragen_envs.spaces import AnyText
from ragen_envs.splits import draw_instance
from ragen_envs.task import TextTask, check_pool_size, read_options
from ragen_envs.tree import Tree
from ragen_envs.verb_action import MAX_ARGUMENT, parse_verb
from ragen_envs.webshop.catalogue import load_catalogue
from ragen_envs.webshop.goals import Goal, goals_of, score
from ragen_envs.webshop.pages import BUY, NEXT, PAGE_SIZE, RESULTS, Page

RewardKind = Literal["binary", "raw"]
_FIRST_HITS = 10
"""Search results among which a blind plan chooses: the first page."""


class WebShopEnv(TextTask[str]):
    """A purchase ends the episode; it gives 1 if the goal is met (else 0), or with reward="raw" the benchmark's score.

    Args:
        data: folder with a catalogue (see `load_catalogue`); None: the small one that ships.
        reward: binary, as RAGEN trains, or raw, the benchmark's score. Success is a score of 1 with either.
        pool_size: instances per split that seeds are mapped to (seed modulo pool_size); None: no bound.

    Raises:
        ValueError: a setting out of its range, a folder that cannot be read, or missing packages.
    """

    title: ClassVar[str] = "WebShop"
    best_how: ClassVar[str] = "the wanted product searched by its title or the instruction, its options chosen, bought"
    default_limits: ClassVar[Mapping[str, int]] = {"max_turns": 9, "max_actions_per_turn": 1, "max_actions": 9}

    def __init__(
        self,
        data: str | None = None,
        reward: RewardKind = "binary",
        pool_size: int | None = None,
        render_mode: str | None = "ansi",
    ) -> None:
        if reward not in get_args(RewardKind):
            raise ValueError(f"reward must be binary or raw, got {reward!r}")
        check_pool_size(pool_size)
        self.render_mode = render_mode
        self.action_space = AnyText(MAX_ARGUMENT + 50)
        self.observation_space = AnyText()
        self.catalogue = load_catalogue(data)
        self._wanted = [product for product in self.catalogue.products if product.instruction]
        self._reward = reward
        self._pool_size = pool_size
        self._goal: Goal | None = None
        self._page = Page()
        self._score: float | None = None

    @property
    def goal(self) -> Goal:
        """The current goal. Raises ResetNeeded before the first reset."""
        if self._goal is None:
            raise gym.error.ResetNeeded("call reset() first")
        return self._goal

    def rules(self) -> str:
        """Returns the task in words."""
        paid = {
            "binary": "gives 1 if it has every attribute and option asked for at the price, else 0",
            "raw": "gives the share of attributes, options and price that are met, less for another kind of product",
        }
        return (
            "You shop on a web site: find and buy what the instruction asks for. search[keywords] on the search page "
            "lists products, ten a page; click[…] opens a product, chooses an option, turns pages or buys. Actions "
            f"stand on each page as they are to be written. The purchase ends the episode and {paid[self._reward]}."
        )

    def describe(self) -> str:
        """Returns the instruction and the page."""
        score = "" if self._score is None else f"\nScore {self._score:.2f}"
        return f"Instruction: {self.goal.instruction}\n{self._page.told()}{score}"

    def parse_action(self, text: str) -> str | None:
        """Reads `search[…]` on a page with a search bar, or `click[…]` of a clickable, as lower case; else None."""
        verb = parse_verb(text, ("search", "click"))
        if verb is None:
            return None
        argument = " ".join(verb[1].lower().split())
        if verb[0] == "search":
            return f"search[{argument}]" if self._page.kind == "search" else None
        # What can be clicked may hold double spaces, which parsing makes even.
        return f"click[{argument}]" if argument in self._by_click() else None

    def legal_actions(self) -> list[str]:
        """Returns all clicks of the page; empty on the search page, where the action is free text."""
        return [f"click[{what}]" for what in self._page.clickables()]

    def fewest_actions(self) -> int:
        """Returns 3: a search, a click on a product, the purchase."""
        return 3

    @property
    def success(self) -> bool:
        """Whether the purchase meets the whole goal."""
        return self._score is not None and self._score >= 1.0

    @property
    def score(self) -> float | None:
        """The benchmark's raw reward; None before the purchase."""
        return self._score

    @property
    def instance_key(self) -> str:
        """The wanted product, whichever of its options are wanted."""
        return self.goal.product.asin

    def solve(self) -> list[str] | None:
        """Returns the shorter of the ways to buy the wanted product: by a search for its title or for the
        instruction.
        """
        if self._page.kind == "done":
            return None
        product = self.goal.product
        first = [] if self._page.kind == "search" else ["click[back to search]"]
        buy = [f"click[{value}]" for _, value in self.goal.options] + [f"click[{BUY}]"]
        if self._page.kind == "item" and self._page.product is product:
            chosen = dict(self._page.chosen)
            return [f"click[{value}]" for name, value in self.goal.options if chosen.get(name) != value] + buy[-1:]
        if self._page.kind == "results" and product in self._page.results[PAGE_SIZE * (self._page.number - 1) :]:
            place = self._page.results.index(product) // PAGE_SIZE + 1 - self._page.number
            return [f"click[{NEXT}]"] * place + [f"click[{product.asin.lower()}]", *buy]
        ways = []
        for query in (self.goal.instruction, product.title):
            query = " ".join(query.split())[:MAX_ARGUMENT].strip()
            found = self.catalogue.search(query, RESULTS)
            if product in found:
                ways.append([f"search[{query}]"] + [f"click[{NEXT}]"] * (found.index(product) // PAGE_SIZE))
        return [*first, *min(ways, key=len), f"click[{product.asin.lower()}]", *buy] if ways else None

    def random_action(self, rng: np.random.Generator) -> str:
        """Returns a random click; on the search page a search for up to three words of the instruction."""
        legal = self.legal_actions()
        if legal:
            return legal[int(rng.integers(len(legal)))]
        words = self.goal.instruction.split()
        chosen = rng.choice(words, int(rng.integers(1, 4))) if words else ["product"]
        return f"search[{' '.join(chosen)[:MAX_ARGUMENT]}]"

    def blind_choices(self, num_actions: int) -> tuple[int, ...]:
        """Returns the number of results to choose from: a blind plan buys one result of the instruction, without
        options.
        """
        return (_FIRST_HITS,)

    def blind_success(self, plan: tuple[int, ...]) -> float:
        """Returns 1 if buying result `plan[0]` meets the whole goal, else 0."""
        found = self.catalogue.search(self.goal.instruction[:MAX_ARGUMENT], RESULTS)
        place = plan[0] if plan else 0
        return float(place < len(found) and score(found[place], (), self.goal) >= 1.0)

    def reset(self, *, seed: int | None = None, options: Tree | None = None) -> tuple[str, Tree]:
        """Draws the goal that (seed, split) names: a product, then its options; without a seed, from `np_random`."""
        super().reset(seed=seed)
        split, _ = read_options(seed, options)
        seed = self._seed_or_draw(seed, self._pool_size)
        self._goal = draw_instance(seed, split, self._drawn_goal, lambda goal: goal.product.asin)
        self._page, self._score = Page(), None
        return self.describe(), {"instance_key": self.instance_key}

    def step(self, action: str) -> tuple[str, float, bool, bool, Tree]:
        """Makes one search or click; an action that this page does not offer changes nothing and gives 0."""
        known = self.parse_action(action)
        if known is None:
            return self.describe(), 0.0, self._page.kind == "done", False, {}
        verb, argument = known[:-1].split("[", 1)
        if verb == "search":
            self._page = Page("results", tuple(self.catalogue.search(argument, RESULTS)))
            return self.describe(), 0.0, False, False, {}
        self._page = self._page.clicked(self._by_click()[argument], self.catalogue.by_asin)
        if self._page.kind != "done" or self._page.product is None:
            return self.describe(), 0.0, False, False, {}
        self._score = score(self._page.product, (value for _, value in self._page.chosen), self.goal)
        reward = self._score if self._reward == "raw" else float(self.success)
        return self.describe(), reward, True, False, {"score": self._score}

    def _by_click(self) -> dict[str, str]:
        return {" ".join(what.split()).lower(): what for what in self._page.clickables()}

    def _drawn_goal(self, rng: np.random.Generator) -> Goal:
        goals = goals_of(self._wanted[int(rng.integers(len(self._wanted)))])
        return goals[int(rng.integers(len(goals)))]
