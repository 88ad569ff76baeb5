"""The report of run folders: what is in it, what several runs become, and that hostile text stays text."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rllib_ragen.report.__main__ import main
from rllib_ragen.report.data import aligned, group_runs, read_run
from rllib_ragen.report.render import render
from rllib_ragen.report.viewer import chosen, to_script_json, token_pieces
from tests.report.build import REPLY, make_run

HOSTILE = (
    "</script><script>alert(1)</script><!-- <img src=x onerror=alert(2)> $x^2$ {{ 7*7 }} \u2028 ]]> &lt;b&gt; "
    "\x1b[31m<svg onload=alert(3)> 猫 '\"`"
)
URL_ATTRIBUTES = {"src", "href", "xlink:href", "action", "data", "srcset", "poster", "formaction", "background"}


class Page(HTMLParser):
    """Every element with its attributes, and the text of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.texts: list[str] = []
        self._in_script = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._in_script = tag == "script"
        if self._in_script:
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._in_script = self._in_script and tag != "script"

    def handle_data(self, data: str) -> None:
        if self._in_script:
            self.scripts[-1] += data
        else:
            self.texts.append(data)

    @property
    def data(self) -> list[dict[str, Any]]:
        """What the viewer reads."""
        found: list[dict[str, Any]] = json.loads(self.scripts[0])
        return found

    def count(self, tag: str) -> int:
        return sum(found == tag for found, _ in self.elements)


def page_of(*paths: Path, max_trajectories: int = 600) -> Page:
    return Page(render([read_run(path) for path in paths], max_trajectories))


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("results"), "alone")


@pytest.fixture(scope="module")
def html(single: Path) -> str:
    return render([read_run(single)], 600)


@pytest.fixture(scope="module")
def plain(html: str) -> Page:
    return Page(html)


def test_the_page_of_a_run_shows_curves_regimes_alarms_times_and_results(plain: Page) -> None:
    text = " ".join(plain.texts)
    for title in (
        *("Success", "Return", "Reward std in groups", "Entropy", "Gradient norm", "Regime, first turns"),
        *(
            "Regime, any turns",
            "Information in reasoning",
            "Gradients by reward std",
            "Alarms",
            "Time of an iteration",
            "Trajectories",
        ),
    ):
        assert title in text, title
    assert plain.count("svg") >= 12
    # Floor and ceiling, the four quarters of the map, and the alarm, as text in the charts and tables.
    for words in ("best possible", "best blind plan", "template collapse", "low entropy collapse", "entropy collapse"):
        assert words in text, words
    assert "the entropy has been low" in text
    assert re.search(r"20\.0 → 80\.0 ± 5\.7 % \(\+60\.0 ± 7\.0 %; 50 instances\)", text)
    assert "80.0 % at 6" in text, "the best validation"


def test_the_viewer_has_members_side_by_side_with_tokens_and_advantages(plain: Page) -> None:
    (run,) = plain.data
    first = [t for t in run["trajectories"] if t["iteration"] == 1]
    assert [(t["group"], t["member"], t["stop"]) for t in first] == [
        ("7", 0, "goal"), ("7", 1, "max_turns"), ("8", 0, "max_turns"),
    ]  # fmt: skip
    turn = first[0]["turns"][0]
    assert "".join(turn["tokens"]) == REPLY
    assert len(turn["tokens"]) == len(turn["logprobs"]) == len(turn["advantages"])
    assert (turn["thought"], turn["actions"], turn["num_run"]) == ("no plan", ["Up", "Left"], 2)
    assert set(turn["advantages"]) == {0.5}
    assert first[2]["turns"][0]["advantages"] == [], "it was not learnt from"


def test_hostile_text_stays_text(tmp_path: Path, plain: Page) -> None:
    path = make_run(tmp_path, "hostile", reply=HOSTILE, prompt=HOSTILE)
    with (path / "alarms.jsonl").open("a") as file:
        row = {"iteration": 2, "alarm": "repetition", "mode": "warn", "message": HOSTILE}
        file.write(json.dumps(row) + "\n")
    page = page_of(path)
    assert page.count("script") == plain.count("script") == 2, "the data and the viewer, and no other"
    assert page.scripts[1] == plain.scripts[1]
    assert page.count("img") == 0
    assert page.count("svg") == plain.count("svg")
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    turn = page.data[0]["trajectories"][0]["turns"][0]
    assert turn["state"] == turn["reply"] == HOSTILE
    assert HOSTILE in "".join(page.texts), "the message of the alarm is readable"


def test_hostile_names_stay_text_in_charts_too(tmp_path: Path) -> None:
    runs = [make_run(tmp_path, name, lr=lr) for name, lr in (("$a<b>&'\"", 1e-4), ("b$x_{", 2e-4))]
    page = page_of(*runs)
    assert page.count("b") == 0
    assert "$a<b>&'\"" in "".join(page.texts)


def test_the_page_asks_for_nothing_and_only_its_own_script_may_run(html: str, plain: Page) -> None:
    assert {"http", "https", "//"} & set(_schemes(plain)) == set()
    (policy,) = [a["content"] for tag, a in plain.elements if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    digest = base64.b64encode(hashlib.sha256(plain.scripts[1].encode()).digest()).decode()
    assert policy.startswith("default-src 'none'")
    assert f"script-src 'sha256-{digest}'" in policy
    assert not re.search(r"@import|url\(\s*['\"]?(?!#)|fetch\(|XMLHttpRequest|WebSocket|innerHTML|eval\(", html)


def _schemes(page: Page) -> Iterator[str]:
    for tag, attributes in page.elements:
        assert tag not in ("link", "iframe", "object", "embed", "base", "image")
        for name, value in attributes.items():
            if name in URL_ATTRIBUTES and value and not value.startswith("#"):
                yield value.split(":")[0]


def test_every_reference_inside_a_chart_has_its_target_once(html: str) -> None:
    targets = re.findall(r' id="(c\d+-[^"]+)"', html)
    wanted = set(re.findall(r'url\(#([^)]+)\)|xlink:href="#([^"]+)"', html))
    assert len(targets) == len(set(targets))
    assert {name for pair in wanted for name in pair if name} <= set(targets)
    assert "#0102" not in html and "#0a0b0" not in html, "a stand-in colour was left"


def test_runs_that_differ_in_their_seed_only_are_one_group_with_a_spread(tmp_path: Path) -> None:
    paths = [make_run(tmp_path, f"lr1-{seed}", seed=seed) for seed in (0, 1, 2)]
    paths.append(make_run(tmp_path, "lr2", seed=0, lr=5e-4, torch_threads=1))
    runs = [read_run(path) for path in paths]
    groups = group_runs(runs)
    assert [(group.label, len(group.runs)) for group in groups] == [("lr=0.0001", 3), ("lr=0.0005", 1)]
    text = " ".join(page_of(*paths).texts)
    # Last greedy validations of the seeds: 80, 81 and 82 %.
    assert "81.0 ± 1.0 %" in text
    assert re.search(r"lr=0\.0001\s+\(3 seeds\).*lr=0\.0005\s+\(lr2\)", text, re.DOTALL), "the key to the colours"
    x, mean, std = aligned([run.series("success") for run in groups[0].runs])
    np.testing.assert_allclose(mean, 0.4 + 0.02 * np.arange(6))
    np.testing.assert_allclose(std, 0.1)
    assert x.tolist() == [1, 2, 3, 4, 5, 6]


def test_curves_are_averaged_where_all_runs_have_a_value() -> None:
    one = (np.array([1.0, 2, 4]), np.array([10.0, 20, 40]))
    other = (np.array([2.0, 3, 4]), np.array([22.0, 0, 44]))
    x, mean, std = aligned([one, other])
    assert (x.tolist(), mean.tolist()) == ([2, 4], [21, 42])
    np.testing.assert_allclose(std, [np.sqrt(2), np.sqrt(8)])
    assert len(aligned([one, (np.array([9.0]), np.array([1.0]))])[0]) == 0


def test_a_run_that_is_still_going_on_can_be_read(tmp_path: Path) -> None:
    path = make_run(tmp_path, "busy")
    for name in ("progress.jsonl", "trajectories.jsonl"):
        with (path / name).open("a") as file:
            file.write('{"iteration": 7, "succ')
    assert len(read_run(path).rows) == 6
    (path / "alarms.jsonl").unlink()
    (path / "trajectories.jsonl").unlink()
    page = page_of(path)
    assert page.data[0]["trajectories"] == []
    assert "None went off." in " ".join(page.texts)


def test_a_run_without_validation_or_measurements_has_the_charts_that_are_left(tmp_path: Path) -> None:
    path = make_run(tmp_path, "bare")
    rows = [json.loads(line) for line in (path / "progress.jsonl").read_text().splitlines()]
    kept = [{"iteration": r["iteration"], "time_s": 1.0, "success": 0.5} for r in rows if "split" not in r]
    (path / "progress.jsonl").write_text("".join(json.dumps(row) + "\n" for row in kept))
    text = " ".join(page_of(path).texts)
    assert "Success while training" in text
    assert "Regime, first turns" not in text
    assert "not measured" in text


def test_too_many_trajectories_are_thinned_evenly_and_that_is_said(single: Path) -> None:
    rows = [{"iteration": i, "member": m} for i in range(1, 101) for m in range(5)]
    kept = chosen(rows, 50)
    iterations = sorted({row["iteration"] for row in kept})
    assert len(kept) == 50 and len(iterations) == 10
    assert (iterations[0], iterations[-1]) == (1, 100)
    assert max(np.diff(iterations)) == min(np.diff(iterations)) == 11
    assert chosen(rows, 1000) == rows
    page = page_of(single, max_trajectories=9)
    assert "9 stored trajectories are left out of this page" in " ".join(page.texts)


def test_tokens_join_to_the_text_also_where_a_letter_takes_several(single: Path) -> None:
    pieces = token_pieces(read_run(single))
    assert pieces is not None
    run = read_run(single)
    for turn in (turn for record in run.trajectories for turn in record["turns"]):
        assert "".join(pieces(turn["reply_ids"])) == turn["reply"]


def test_without_the_tokenizer_replies_are_plain_text_and_that_is_said(tmp_path: Path) -> None:
    path = make_run(tmp_path, "moved")
    (path / "model" / "tokenizer.json").unlink()
    config = (path / "config.yaml").read_text().replace("path: tiny", "path: /nowhere")
    (path / "config.yaml").write_text(config)
    page = page_of(path)
    assert page.data[0]["trajectories"][0]["turns"][0]["tokens"] == []
    assert "their tokenizer was not found: moved" in " ".join(page.texts)


def test_json_in_a_script_cannot_end_it() -> None:
    text = to_script_json({"a": "</script><!--&\u2028"})
    assert not re.search("[<>&\u2028]", text)
    assert json.loads(text) == {"a": "</script><!--&\u2028"}


def test_the_command_writes_beside_the_run_or_where_it_is_told(
    single: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(single)]) == 0
    assert (single / "report.html").read_text().startswith("<!doctype html>")
    assert main([str(single), "--out", str(tmp_path / "r.html")]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"report  {single / 'report.html'}",
        f"report  {tmp_path / 'r.html'}",
    ]


NOWHERE = Path("NOWHERE").absolute()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["NOWHERE"], f"{NOWHERE} is no run folder: it has no config.yaml"),
        (["RUN", "RUN"], "the same run folder is given twice"),
        (["RUN", "--out", "NOWHERE/r.html"], f"--out: cannot write {NOWHERE}/r.html: No such file or directory"),
    ],
)
def test_bad_input_is_one_sentence(
    single: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([argument.replace("RUN", str(single)) for argument in arguments]) == 2
    captured = capsys.readouterr()
    assert captured.err == f"rllib_ragen: {said}\n"
    assert captured.out == ""


def test_an_option_out_of_range_is_refused_by_name(single: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([str(single), "--max-trajectories", "0"])
    assert end.value.code == 2
    assert "argument --max-trajectories: must be an integer ≥ 1 and ≤ 1000000000" in capsys.readouterr().err


def test_a_run_without_a_row_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = make_run(tmp_path, "new")
    (path / "progress.jsonl").write_text("")
    assert main([str(path)]) == 2
    assert "has no row in progress.jsonl yet" in capsys.readouterr().err
