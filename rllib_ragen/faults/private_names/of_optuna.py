"""Optuna's private names: user attributes of a trial that another process asked for."""

from __future__ import annotations

from typing import Any

from optuna import Study


def note(study: Study, number: int, name: str, value: Any) -> None:
    """Sets a user attribute of trial `number`. Optuna's public way needs the Trial object, which only the asker has."""
    study._storage.set_trial_user_attr(study.trials[number]._trial_id, name, value)
