"""WebShop: goals, the reward to the letter, pages, loaders; the real products where $RAGEN_WEBSHOP_DATA names them."""

from __future__ import annotations

import gzip
import json
import os
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from ragen_envs import make_task, make_text_env
from ragen_envs.webshop.catalogue import Product, load_catalogue, product_of, title_nouns
from ragen_envs.webshop.env import WebShopEnv
from ragen_envs.webshop.goals import NO_LIMIT, Goal, alike, goals_of, score
from ragen_envs.webshop.make_catalogue import make_products
from ragen_envs.webshop.pages import Page

REAL = os.environ.get("RAGEN_WEBSHOP_DATA")
ROW: dict[str, Any] = {
    "asin": "B000000001",
    "Title": "Selta Shirt, Slim Fit",
    "Description": "A shirt for daily wear.",
    "BulletPoints": ["Machine wash cold.", "Made of cotton."],
    "Price": "$25.5",
    "pricing": [25.5],
    "Rating": "4.0",
    "category": "fashion",
    "query": "Men's Shirts ",
    "product_category": "Clothing › Men › Shirts",
    "options": {"Color": ["navy blue", "red"], "size": ["small", "large"]},
    "Attributes": ["slim fit", "long sleeve"],
    "title_nouns": ["selta", "shirt"],
    "instruction": "Find me slim fit men's shirts with long sleeve.",
    "instruction_attributes": ["slim fit", "long sleeve"],
}
SHIRT = product_of(ROW)
GOAL = Goal(SHIRT, (("color", "navy blue"), ("size", "large")), 40.0)


def test_a_goal_is_made_of_every_combination_of_options() -> None:
    goals = goals_of(SHIRT)
    assert [goal.options for goal in goals] == [
        (("color", color), ("size", size)) for color in ("navy blue", "red") for size in ("small", "large")
    ]
    assert len({goal.price_limit for goal in goals}) == 1
    assert goals[0].price_limit in (40.0, 50.0, 60.0)
    assert goals[0].instruction == (
        "Find me slim fit men's shirts with long sleeve with color: navy blue, and size: small, and price lower than "
        f"{goals[0].price_limit:.2f} dollars"
    )
    dear = replace(SHIRT, price=985.0)
    assert {goal.price_limit for goal in goals_of(dear)} == {NO_LIMIT}
    assert "price lower" not in goals_of(dear)[0].instruction
    assert goals_of(replace(SHIRT, instruction=None)) == []


@pytest.mark.parametrize(
    ("bought", "chosen", "expected"),
    [
        (SHIRT, ("navy blue", "large"), 1.0),
        (SHIRT, ("large", "blue"), 1.0),  # the first colour of the benchmark's list in "navy blue" is blue
        (SHIRT, ("large",), 0.8),
        (SHIRT, (), 0.6),
        (replace(SHIRT, price=40.0), ("navy blue", "large"), 1.0),
        (replace(SHIRT, price=40.01), ("navy blue", "large"), 0.8),
        (replace(SHIRT, attributes=("long sleeves",)), ("navy blue", "large"), 1.0),  # slim fit: in the title
        (replace(SHIRT, attributes=(), title="Shirt"), ("navy blue", "large"), 0.6),
        (replace(SHIRT, title_nouns=frozenset({"pants"})), ("navy blue", "large"), 0.0),
        (replace(SHIRT, title_nouns=frozenset({"shirt"})), ("navy blue", "large"), 1.0),
    ],
)
def test_the_score_is_kind_times_share_of_attributes_options_and_price(
    bought: Product, chosen: tuple[str, ...], expected: float
) -> None:
    assert score(bought, chosen, GOAL) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("own_nouns", "query", "path", "kind"),
    [
        (10, "men's shirts", "Elsewhere", 1.0),  # the same query
        (2, "other", "Clothing › Men › Pants", 1.0),  # two shared parts of the category
        (2, "other", "Clothing › Women", 0.5),  # overlap 0.2 is not above 0.2
        (3, "other", "Elsewhere", 1.0),
        (1, "men's shirts", "Elsewhere", 1.0),  # overlap 0.1 is not below 0.1
        (0, "men's shirts", "Clothing › Men › Shirts", 0.0),
    ],
)
def test_the_kind_of_product_is_read_from_query_categories_and_title(
    own_nouns: int, query: str, path: str, kind: float
) -> None:
    nouns = [f"noun{number}" for number in range(10)]
    wanted = replace(SHIRT, title_nouns=frozenset(nouns))
    bought = replace(SHIRT, title_nouns=frozenset(nouns[:own_nouns]), query=query, product_category=path)
    assert score(bought, ("navy blue", "large"), replace(GOAL, product=wanted)) == pytest.approx(kind)


def test_a_tenth_of_the_nouns_is_the_border_of_the_lowest_kind() -> None:
    nouns = [f"noun{number}" for number in range(11)]
    wanted = replace(SHIRT, title_nouns=frozenset(nouns))
    bought = replace(SHIRT, title_nouns=frozenset(nouns[:1]))
    assert score(bought, ("navy blue", "large"), replace(GOAL, product=wanted)) == pytest.approx(0.1)
    nameless = replace(SHIRT, title_nouns=frozenset())
    assert score(bought, ("navy blue", "large"), replace(GOAL, product=nameless)) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("long sleeve", "Long-Sleeve!", True),
        ("machine washable", "machine wash", True),
        ("machine wash cold", "machine wash", True),
        ("hand wash", "machine wash", False),
        ("", "x", False),
    ],
)
def test_alike_is_a_token_set_ratio_above_85(one: str, other: str, same: bool) -> None:
    assert alike(one, other) is same


def test_a_shopping_trip_goes_through_all_pages() -> None:
    env = WebShopEnv()
    env.reset(seed=0)
    assert env.legal_actions() == []
    assert env.parse_action("click[buy now]") is None
    env.step("search[shirt]")
    assert env.parse_action("search[pants]") is None, "there is a search bar on the search page only"
    first = [action for action in env.legal_actions() if action.startswith("click[r")]
    assert len(first) == 10
    env.step("click[next >]")
    second = [action for action in env.legal_actions() if action.startswith("click[r")]
    assert not set(first) & set(second)
    env.step("click[< prev]")
    assert [action for action in env.legal_actions() if action.startswith("click[r")] == first
    env.step(first[0].upper())
    for detail in ("description", "features", "reviews"):
        assert env.step(f"click[{detail}]")[0].split("\n")[1] == detail.capitalize()
        env.step("click[< prev]")
    product = env.catalogue.by_asin[first[0][6:-1]]
    for values in product.options.values():
        assert f"(chosen: {values[-1]})" in env.step(f"click[{values[-1]}]")[0]
        assert f"(chosen: {values[0]})" in env.step(f"click[{values[0]}]")[0]
    text, _, terminated, *_ = env.step("click[buy now]")
    assert terminated and "Score" in text
    assert env.step("click[buy now]")[1:3] == (0.0, True)


def test_a_search_without_hits_can_be_left_again() -> None:
    env = WebShopEnv()
    env.reset(seed=0)
    assert "0 products" in env.step("search[zzzzqqq]")[0]
    assert env.legal_actions() == ["click[back to search]"]
    env.step("click[back to search]")
    assert env.legal_actions() == []


@pytest.mark.parametrize("reward", ["binary", "raw"])
def test_the_solver_buys_what_is_wanted_from_any_page(reward: Any) -> None:
    env = WebShopEnv(reward=reward)
    for seed in range(30):
        env.reset(seed=seed)
        plan = env.solve()
        assert plan is not None and 3 <= len(plan) <= 9
        for _ in plan:  # asked again after each action
            following = env.solve()
            assert following
            _, paid, terminated, *_ = env.step(env.parse_action(following[0]) or "")
        assert terminated and env.success and paid == 1.0


def test_raw_pays_the_share_and_binary_nothing_for_it() -> None:
    paid = {}
    for env in (WebShopEnv(reward="binary"), WebShopEnv(reward="raw")):
        env.reset(seed=1)
        plan = env.solve() or []
        for action in [action for action in plan if action != f"click[{env.goal.options[0][1]}]"]:
            paid[env._reward] = env.step(action)[1]
        assert not env.success
    total = len(env.goal.product.instruction_attributes) + len(env.goal.options) + 1
    assert paid == {"binary": 0.0, "raw": pytest.approx((total - 1) / total)}


def test_the_shipped_catalogue_comes_out_of_its_script() -> None:
    shipped = resources.files("ragen_envs.webshop").joinpath("catalogue.jsonl.gz").read_bytes()
    assert len(shipped) < 300_000
    assert [json.loads(line) for line in gzip.decompress(shipped).decode().splitlines()] == make_products()
    catalogue = load_catalogue(None)
    goals = [goal for product in catalogue.products for goal in goals_of(product)]
    assert all(score(goal.product, [value for _, value in goal.options], goal) == 1.0 for goal in goals)


def _write(folder: Path, *rows: object) -> str:
    text = "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows)
    (folder / "products.jsonl").write_text(text, encoding="utf-8")
    return str(folder)


def test_a_users_folder_is_played(tmp_path: Path) -> None:
    rows = [{**ROW, "asin": f"B{number:09d}"} for number in range(40)]
    env = make_text_env("webshop", {"data": _write(tmp_path, *rows)})
    assert "slim fit men's shirts" in env.reset(seed=0)[0]


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([ROW, "{"], "products.jsonl, line 2: no JSON"),
        ([ROW, "3"], "line 2: must be a JSON object"),
        ([{**ROW, "pricing": ["much"]}], "line 1: could not convert"),
        ([{key: value for key, value in ROW.items() if key != "Title"}], "line 1: lacks Title"),
        ([ROW, ROW], "1 products have the asin of another"),
        ([{**ROW, "instruction": None}], "no product has an instruction"),
        ([{**ROW, "instruction_attributes": []}], "line 1: has an instruction without instruction_attributes"),
        ([""], "has no rows"),
    ],
)
def test_a_broken_catalogue_gets_one_sentence_with_its_line(tmp_path: Path, rows: list[object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as told:
        make_text_env("webshop", {"data": _write(tmp_path, *rows)})
    assert "\n" not in str(told.value)


def test_missing_folders_and_files_get_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no folder"):
        make_text_env("webshop", {"data": str(tmp_path / "none")})
    with pytest.raises(ValueError, match=r"must hold one file products\*\.jsonl or .*; there is none"):
        make_text_env("webshop", {"data": str(tmp_path)})
    with pytest.raises(ValueError, match="reward must be binary or raw, got 'half'"):
        make_text_env("webshop", {"reward": "half"})


def test_the_benchmarks_own_files_are_read(tmp_path: Path) -> None:
    item = {
        "asin": "B01", "name": "Selta Shirt", "full_description": "For work.", "small_description": ["Cotton."],
        "pricing": "$12.50$19.99", "category": "fashion", "query": "shirts ", "product_category": "Men › Shirts",
        "customization_options": {"Color": [{"value": " Navy/Blue "}], "Fit": None},
    }  # fmt: skip
    items = [item, item, {**item, "asin": "too long an asin"}, {**item, "asin": "B02", "pricing": ""}]
    said = {
        "B01": {"attributes": ["slim fit"], "instruction": "Find me shirts", "instruction_attributes": ["slim fit"]}
    }
    (tmp_path / "items_shuffle_1000.json").write_text(json.dumps(items))
    (tmp_path / "items_ins_v2_1000.json").write_text(json.dumps(said))
    first, second = load_catalogue(str(tmp_path)).products
    assert first.options == {"color": ("navy | blue",)}
    assert 12.5 <= first.price <= 19.99 and first.price_label == "$12.5 to $19.99"
    assert (second.price, second.attributes, second.instruction) == (100.0, ("DUMMY_ATTR",), None)
    (tmp_path / "items_shuffle_1000.json").write_text(json.dumps([{"asin": "B03"}]))
    load_catalogue.cache_clear()
    with pytest.raises(ValueError, match=r"product 0: KeyError"):
        load_catalogue(str(tmp_path))


def test_nouns_of_a_title_are_its_words_without_function_words_and_numbers() -> None:
    assert title_nouns("Set of 2 Men's Boots, 24 inch") == {"set", "men's", "boots", "inch"}


def test_pages_never_offer_what_they_cannot_do() -> None:
    page = Page("item", (SHIRT,), 1, SHIRT)
    for what in page.clickables():
        assert page.clicked(what, {}) is not None
        assert f"click[{what}]" in page.told()


@pytest.mark.skipif(REAL is None, reason="RAGEN_WEBSHOP_DATA does not name the folder of WebShop's 1,000 products")
def test_the_real_products_make_6910_goals_and_each_can_be_met() -> None:
    catalogue = load_catalogue(REAL)
    goals = [goal for product in catalogue.products for goal in goals_of(product)]
    assert (len(catalogue.products), len(goals)) == (1_000, 6_910)
    assert all(score(goal.product, [value for _, value in goal.options], goal) == 1.0 for goal in goals)


@pytest.mark.skipif(REAL is None, reason="RAGEN_WEBSHOP_DATA does not name the folder of WebShop's 1,000 products")
def test_the_real_shop_can_be_solved_within_nine_actions() -> None:
    env = make_task("webshop", data=REAL)
    lengths = []
    for seed in range(100):
        env.reset(seed=seed)
        plan = env.solve()
        assert plan is not None
        lengths.append(len(plan))
        for action in plan:
            env.step(env.parse_action(action) or "")
        assert env.success
    assert sum(length <= 9 for length in lengths) >= 95
