"""The folder of the sweep that this process drives.

Tune pickles searchers and callbacks into it. They must not remember where it was: it may be moved, and resumed.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import URL

_driven: list[Path] = []


def drive(folder: Path) -> None:
    """Notes that from now on this process drives the sweep in `folder`."""
    _driven[:] = [folder]


def driven() -> Path:
    """Returns the folder that `drive` was told. Raises AssertionError before that."""
    assert _driven, "no sweep is driven by this process"
    return _driven[0]


def study_url(folder: Path) -> str:
    """Returns SQLAlchemy's URL of the study of the sweep in `folder`, whatever its name.

    SQLite's own form for files: in the plain one a `?` or a `{` of the path would mean something to SQLAlchemy, Optuna.
    """
    url = URL.create("sqlite", database=(folder / "study.db").as_uri(), query={"uri": "true"})
    return url.render_as_string()
