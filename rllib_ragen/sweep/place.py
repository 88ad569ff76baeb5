"""The folder of this process's sweep.

Tune pickles searchers and callbacks into it. They must not remember where it was: it may be moved, and resumed.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import URL

_driven: list[Path] = []


def drive(folder: Path) -> None:
    """Sets the folder of this process's sweep."""
    _driven[:] = [folder]


def driven() -> Path:
    """Returns the folder set by `drive`. Raises AssertionError before that."""
    assert _driven, "no sweep is driven by this process"
    return _driven[0]


def study_url(folder: Path) -> str:
    """Returns SQLAlchemy's URL of the study of the sweep in `folder`.

    It has SQLite's form for files: in the plain one, `?` and `{` have a meaning for SQLAlchemy and Optuna.
    """
    url = URL.create("sqlite", database=(folder / "study.db").as_uri(), query={"uri": "true"})
    return url.render_as_string()
