"""The records of mutation runs, and docs/mutations.md made from them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.mutations.named import WHERE

TOP = Path(__file__).parents[2]
RECORDS = TOP / "docs" / "mutations.jsonl"
PAGE = TOP / "docs" / "mutations.md"
LEAST = 0.95
"""The share of all changes that must be seen."""
LEAST_OF_A_MODULE = 0.9
"""The share of each module's."""
_BEGIN, _END = "<!-- made by benchmarks/mutations -->", "<!-- end -->"


@dataclass(frozen=True)
class Record:
    """The results of one module's changes."""

    module: str
    digest: str
    """Digest of the module's code and tests at the trial."""
    tests: int
    changes: int
    endless: int
    """Number of seen changes that made the tests run for ever."""
    survivors: list[list[str]]
    """Changes that no test saw: [function, change]."""
    equivalent: list[list[str]]
    """[function, change, reason] of what changes nothing."""
    named: list[str]
    """Changes that have a name (named.py), seen or not."""
    seconds: float
    """CPU time of the trial in seconds."""

    @property
    def seen(self) -> int:
        """Number of changes that made a test fail."""
        return self.changes - len(self.survivors) - len(self.equivalent)

    def to_json(self) -> str:
        """Returns the record as one line of JSON."""
        return json.dumps(asdict(self), ensure_ascii=False)


def read_records() -> dict[str, Record]:
    """Reads the records by module."""
    lines = RECORDS.read_text(encoding="utf-8").splitlines() if RECORDS.exists() else []
    return {record.module: record for record in (Record(**json.loads(line)) for line in lines)}


def seen_share(records: Sequence[Record]) -> float:
    """Returns the share of changes that tests saw, without equivalent ones."""
    return sum(one.seen for one in records) / max(1, sum(one.changes - len(one.equivalent) for one in records))


def enough_is_seen(records: Sequence[Record]) -> bool:
    """Says whether enough of all changes is seen, and enough of each module's."""
    return seen_share(records) >= LEAST and all(
        seen_share([one]) >= LEAST_OF_A_MODULE for one in records if one.changes
    )


def write_page(page: Path, records: Sequence[Record]) -> None:
    """Replaces the text between the page's two marks."""
    text = page.read_text(encoding="utf-8")
    before, after = text[: text.index(_BEGIN)], text[text.index(_END) :]
    page.write_text(f"{before}{_BEGIN}\n\n{_made(records)}\n\n{after}", encoding="utf-8")


def _made(records: Sequence[Record]) -> str:
    changes, equivalent = sum(one.changes for one in records), sum(len(one.equivalent) for one in records)
    endless, seconds = sum(one.endless for one in records), sum(one.seconds for one in records)
    table = ["| Module | Tests | Changes | Seen | Not seen | Change nothing |", "|---|---|---|---|---|---|"]
    table += [
        f"| `{one.module}` | {one.tests} | {one.changes} | {one.seen} | {len(one.survivors)} | {len(one.equivalent)} |"
        for one in records
    ]
    parts = [
        f"**{seen_share(records):.1%}** of {changes - equivalent:,} changes are seen, {endless} of them because the\n"
        f"tests would run for ever. {equivalent} further ones change nothing. It took {seconds / 60:.0f} minutes of one"
        " core.",
        "\n".join(table),
        "### Wrong programs by name",
        _named(records),
        "### Not seen",
        _listed([(one.module, *survivor) for one in records for survivor in one.survivors]) or "None.",
        "### Change nothing",
        _listed([(one.module, *equal) for one in records for equal in one.equivalent]) or "None.",
    ]
    return "\n\n".join(parts)


def _named(records: Sequence[Record]) -> str:
    rows = [(one.module, name, [WHERE, name] in one.survivors) for one in records for name in one.named]
    return "\n".join(f"- `{module}`: {name}: {'**not seen**' if missed else 'seen'}" for module, name, missed in rows)


def _listed(rows: Sequence[tuple[str, ...]]) -> str:
    return "\n".join(
        f"- `{module}`, `{where}`: `{change}`" + (f": {reason[0]}" if reason else "")
        for module, where, change, *reason in rows
    )
