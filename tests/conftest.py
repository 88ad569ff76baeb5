"""Shared by all tests."""

from __future__ import annotations

import importlib.util
import os
import warnings

import hypothesis
import pytest

from tests.report.browser import HOW
from tests.report.browser import missing as missing_browser

# Before torch is imported, here and in the processes that tests start: more threads than cores make small models slow.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Ray starts a worker per CPU for tasks, of which there are none: a second of CPU time each, for nothing.
os.environ.setdefault("RAY_prestart_worker_first_driver", "0")
# On a busy machine an example takes as long as it takes.
hypothesis.settings.register_profile(
    "no_deadline", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("no_deadline")
ALLOW_NO_VLLM = "RLLIB_RAGEN_ALLOW_NO_VLLM"
OF_RAY_DEFAULT = ("aiohttp_cors", "colorful", "opencensus", "smart_open", "virtualenv")
# Asked before anybody imports them: colorful, once imported, has no spec any more.
MISSING = [name for name in OF_RAY_DEFAULT if importlib.util.find_spec(name) is None]


LONG = (
    *("tests/rollout/test_vllm_engine.py", "tests/sweep/test_sweep.py", "tests/faults/test_driver.py"),
    *("tests/run/test_run.py", "tests/starpo/test_resume.py", "tests/run/test_jobs.py", "tests/starpo/test_lora.py"),
    *("tests/faults/test_storage.py", "tests/faults/test_runners.py", "tests/learner/test_splits.py"),
    *("tests/starpo/test_games.py", "tests/starpo/test_runners.py", "tests/house/test_wheel.py"),
    *("tests/starpo/test_training.py", "tests/run/test_game_run.py", "tests/diagnostics/test_gradients.py"),
)
"""Files that start Ray, vLLM or commands often: with several processes they begin first, so that at the end no process
is left alone with one of them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the files that take longest first where files are shared out to several processes."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: LONG.index(name) if (name := item.nodeid.split("::")[0]) in LONG else len(LONG))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test marked `vllm` fails where vLLM is missing, or skips where the user has said that it may be.

    Tests marked `jobs` or `browser` skip, and say so, where ray[default] or a browser is missing: `make` installs
    neither.
    """
    if item.get_closest_marker("browser") is not None and (lacking := missing_browser()):
        warnings.warn(f"NOT TESTED, no browser here: {item.nodeid}; {HOW}", stacklevel=1)
        pytest.skip(f"NOT TESTED: {lacking} is not there; {HOW}")
    if item.get_closest_marker("jobs") is not None and MISSING:
        how = "pip install -c requirements/constraints.txt -e '.[jobs]'"
        warnings.warn(f"NOT TESTED, no ray[default] here: {item.nodeid}; {how}", stacklevel=1)
        pytest.skip(f"NOT TESTED: {', '.join(MISSING)} of ray[default] not installed; {how}")
    if item.get_closest_marker("vllm") is None or importlib.util.find_spec("vllm") is not None:
        return
    if os.environ.get(ALLOW_NO_VLLM) == "1":
        warnings.warn(f"NOT TESTED, no vLLM here: {item.nodeid}", stacklevel=1)
        pytest.skip(f"NOT TESTED: vLLM is not installed and {ALLOW_NO_VLLM}=1")
    pytest.fail(f"vLLM is not installed (make says why); set {ALLOW_NO_VLLM}=1 to skip the tests of it", pytrace=False)
