"""The pages in a real browser: they load nothing, complain of nothing, show what is chosen, and run nobody's text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rllib_ragen.report.data import read_run
from rllib_ragen.report.render import render
from rllib_ragen.sweep.report import write_report
from tests.report.browser import browser, opened
from tests.report.build import make_run
from tests.report.test_report import HOSTILE
from tests.sweep.build import finished_sweep

pytestmark = pytest.mark.browser
PHONE = (390, 844)
NEEDLE = "two boxes, one goal"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs; in one trajectory of iteration 3 a state that can be searched for."""
    results = tmp_path_factory.mktemp("results")
    runs = [make_run(results, "first"), make_run(results, "second", lr=5e-4)]
    path = runs[0] / "trajectories.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    (marked,) = [row for row in rows if (row["iteration"], row["group_id"]) == (3, "8")]
    marked["turns"][0]["prompt"] = f"Turn 1\n{NEEDLE.upper()}"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return write(results / "report.html", *runs)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = tmp_path_factory.mktemp("hostile")
    run = make_run(results, "$a<b>&'\"", reply=HOSTILE, prompt=HOSTILE)
    with (run / "alarms.jsonl").open("a") as file:
        file.write(json.dumps({"iteration": 2, "alarm": "repetition", "mode": "warn", "message": HOSTILE}) + "\n")
    return write(results / "report.html", run)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    spec, study, folder = finished_sweep(tmp_path_factory.mktemp("sweep"))
    write_report(spec, study, folder)
    return folder / "report.html"


def write(path: Path, *runs: Path) -> Path:
    path.write_text(render([read_run(run) for run in runs], 600), encoding="utf-8")
    return path


@pytest.mark.parametrize("which", ["report", "hostile", "sweep"])
@pytest.mark.parametrize("dark", [False, True])
def test_a_page_asks_for_nothing_and_complains_of_nothing(
    chromium: Any, request: pytest.FixtureRequest, which: str, dark: bool
) -> None:
    file: Path = request.getfixturevalue(which)
    with opened(chromium, file, dark=dark) as seen:
        assert seen.requests == [file.resolve().as_uri()]
        assert seen.complaints == []
        assert seen.page.locator("svg").count() >= 3
        widths = seen.page.evaluate(
            "[...document.querySelectorAll('svg')].map((svg) => svg.getBoundingClientRect().width)"
        )
        assert min(widths) > 200, "a chart that nobody can see"


@pytest.mark.parametrize("which", ["report", "sweep"])
@pytest.mark.parametrize("dark", [False, True])
def test_text_can_be_read_by_day_and_by_night(
    chromium: Any, request: pytest.FixtureRequest, which: str, dark: bool
) -> None:
    """The contrast that WCAG 2.2 AA asks of text: 4.5 to 1."""
    with opened(chromium, request.getfixturevalue(which), dark=dark) as seen:
        paper = luminance(seen.style("body", "background-color"))
        assert (paper < 0.05) == dark
        for selector in ("body", "h1", "th", "td", "figcaption"):
            ink = luminance(seen.style(selector, "color"))
            bright, dim = max(ink, paper), min(ink, paper)
            assert (bright + 0.05) / (dim + 0.05) >= 4.5, selector


def luminance(colour: str) -> float:
    """WCAG's relative luminance of `rgb(r, g, b)`."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_the_switch_turns_day_into_night_and_back(chromium: Any, report: Path) -> None:
    with opened(chromium, report) as seen:
        day = seen.style("body", "background-color"), seen.style("svg text", "fill")
        seen.page.click("#theme")
        night = seen.style("body", "background-color"), seen.style("svg text", "fill")
        assert day[0] != night[0] and day[1] != night[1], "charts change with the page"
        seen.page.click("#theme")
        assert (seen.style("body", "background-color"), seen.style("svg text", "fill")) == day


@pytest.mark.parametrize("which", ["report", "sweep"])
def test_a_phone_shows_the_whole_width(chromium: Any, request: pytest.FixtureRequest, which: str) -> None:
    with opened(chromium, request.getfixturevalue(which), size=PHONE) as seen:
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
        assert seen.page.evaluate("window.innerWidth") == PHONE[0]


def test_the_viewer_shows_the_run_iteration_and_group_that_are_chosen(chromium: Any, report: Path) -> None:
    with opened(chromium, report) as seen:
        assert seen.texts("#run option") == ["first", "second"]
        assert seen.texts("#iteration option") == ["1", "2", "3", "4", "5", "6"]
        # The largest group first, its members side by side.
        assert [text.splitlines()[0] for text in seen.texts(".member")] == [
            "member 0 return 2, goal", "member 1 return -1, max turns",
        ]  # fmt: skip
        boxes = [box.bounding_box() for box in seen.page.locator(".member").all()]
        assert boxes[0]["y"] == boxes[1]["y"] and boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"]
        assert seen.texts(".member:first-child .turn .dim") == ["turn 1", "turn 2"]
        seen.choose("#group", "8")
        assert [text.splitlines()[0] for text in seen.texts(".member")] == ["member 0 return -1, max turns"]
        seen.page.click("#later")
        assert seen.page.input_value("#iteration") == "2"
        seen.choose("#iteration", "6")
        assert seen.page.is_disabled("#later") and not seen.page.is_disabled("#earlier")
        seen.choose("#run", "1")
        assert seen.texts(".member")
        assert seen.complaints == []


def test_filters_and_search_change_what_is_shown(chromium: Any, report: Path) -> None:
    with opened(chromium, report) as seen:
        count: Callable[[], str] = lambda: seen.texts("#count")[0]  # noqa: E731
        assert count() == "18 of 18 trajectories"
        seen.choose("#filter", "success")
        assert count() == "6 of 18 trajectories"
        assert "goal" in seen.texts("#filter option") and "max turns" in seen.texts("#filter option")
        seen.choose("#filter", "max_turns")
        assert count() == "12 of 18 trajectories"
        seen.page.fill("#search", NEEDLE)
        assert count() == "1 of 18 trajectories"
        assert seen.texts("#matches button") == [f"iteration 3, group 8, member 0: …Turn 1 {NEEDLE.upper()}…"]
        assert (seen.page.input_value("#iteration"), seen.page.input_value("#group")) == ("3", "8")
        assert NEEDLE.upper() in seen.texts(".member pre")[0]
        seen.page.fill("#search", "no such words")
        assert count() == "0 of 18 trajectories" and seen.texts(".member") == []
        seen.page.fill("#search", "")
        seen.choose("#filter", "all")
        assert count() == "18 of 18 trajectories" and seen.texts(".member")
        assert seen.complaints == []


def test_tokens_are_coloured_by_what_is_chosen(chromium: Any, report: Path) -> None:
    with opened(chromium, report) as seen:
        token = ".reply span"
        by_advantage = seen.style(token, "background-color")
        seen.choose("#colour", "logprobs")
        by_logprob = seen.style(token, "background-color")
        seen.choose("#colour", "")
        plain = seen.style(token, "background-color")
        assert len({by_advantage, by_logprob, plain}) == 3
        assert seen.page.get_attribute(token, "title") == "log-prob -0.500, p 0.607, advantage 0.500"
        seen.choose("#group", "8")
        assert "not trained on" in seen.page.get_attribute(token, "title")


def test_hostile_text_is_shown_and_never_run(chromium: Any, hostile: Path) -> None:
    with opened(chromium, hostile) as seen:
        for value in ("logprobs", "", "advantages"):
            seen.choose("#colour", value)
        seen.page.fill("#search", "<script>alert(1)")
        assert "<script>alert(1)</script>" in seen.texts("#matches button")[0]
        assert "<img src=x onerror=alert(2)>" in seen.texts(".member pre")[0]
        assert seen.page.locator("img").count() == 0
        assert seen.page.locator("script").count() == 2
        assert any("onerror=alert(2)" in text for text in seen.texts("td")), "the alarm's message"
        assert "$a<b>&'\"" in seen.texts("h1")
        seen.page.wait_for_timeout(100)
        assert seen.complaints == [] and len(seen.requests) == 1


def test_the_pages_policy_stops_a_script_that_should_get_in(chromium: Any, report: Path, tmp_path: Path) -> None:
    """Escaping is one wall; this is the other."""
    broken = tmp_path / "broken.html"
    text = report.read_text(encoding="utf-8")
    broken.write_text(text.replace("</body>", "<script>alert(1)</script><img src=x onerror=alert(2)></body>"))
    with opened(chromium, broken) as seen:
        seen.page.wait_for_timeout(100)
        assert [one for one in seen.complaints if one.startswith("dialog")] == []
        assert sum("Content Security Policy" in one for one in seen.complaints) >= 2
