"""Which modules are changed, and which tests have to see it: those of the module itself, which are fast."""

from __future__ import annotations

import hashlib
from pathlib import Path

TOP = Path(__file__).parents[2]
FOLDERS = ("credit", "learner/losses")
"""Every module in these is changed."""
FURTHER: dict[str, tuple[str, ...]] = {
    "learner/objective.py": ("learner/test_objective.py",),
    "learner/schedule.py": ("learner/test_schedule.py",),
    "models/chat_format.py": ("rollout/test_chat_format.py", "rollout/test_chat.py"),
    "rollout/context.py": ("rollout/test_context.py",),
    "rollout/engines/sampling.py": ("rollout/test_sampling.py",),
    "rollout/specs.py": ("rollout/test_specs.py",),
}
"""By path below rllib_ragen/: test files below tests/."""


def planned() -> dict[str, tuple[str, ...]]:
    """Of every module, by path below rllib_ragen/: its test files below tests/.

    A module of FOLDERS has `test_<module>.py` or `test_<module>_loss.py`, or else all tests of its folder.
    """
    found = {}
    for folder in FOLDERS:
        tests = TOP / "tests" / folder
        for path in sorted((TOP / "rllib_ragen" / folder).glob("*.py")):
            if path.stem != "__init__":
                own = [tests / f"test_{path.stem}.py", tests / f"test_{path.stem}_loss.py"]
                chosen = [one for one in own if one.exists()] or sorted(tests.glob("test_*.py"))
                found[f"{folder}/{path.name}"] = tuple(f"{folder}/{one.name}" for one in chosen)
    return found | FURTHER


def digest(module: str) -> str:
    """Of the module's code and of its tests."""
    files = [TOP / "rllib_ragen" / module, *(TOP / "tests" / name for name in planned()[module])]
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:16]
