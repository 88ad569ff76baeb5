"""Optuna's: notes on a trial by whoever did not ask for it."""

from __future__ import annotations

from typing import Any

from optuna import Study


def note(study: Study, number: int, name: str, value: Any) -> None:
    """Sets a user attribute of trial `number`. Optuna's public way wants the Trial, which ends with who asked."""
    study._storage.set_trial_user_attr(study.trials[number]._trial_id, name, value)
