"""The modules to change, and the tests that should see it: those of the module itself, which are fast."""

from __future__ import annotations

import hashlib
from pathlib import Path

from benchmarks.mutations.named import NAMED

TOP = Path(__file__).parents[2]
FOLDERS = ("credit", "learner/losses")
"""Folders of which every module is changed."""
_GROUPS = ("credit/test_group_estimators.py", "credit/test_faults.py")
_TURNS = ("credit/test_turn_estimators.py",)
_DOORS = ("doors/test_names.py",)
ELSEWHERE: dict[str, tuple[str, ...]] = {
    "credit/dr_grpo.py": _GROUPS,
    "credit/filters.py": ("credit/test_filters.py", "credit/test_by_environment.py"),
    "credit/filter_rules.py": ("credit/test_filters.py", *_DOORS),
    "credit/gigpo.py": _TURNS,
    "credit/group_scores.py": ("credit/test_filters.py",),
    "credit/groups.py": _GROUPS,
    "credit/grpo.py": _GROUPS,
    "credit/kl_estimate.py": ("credit/test_kl_estimate.py", "learner/losses/test_kl_loss.py"),
    "credit/raft.py": _GROUPS,
    "credit/registry.py": (*_GROUPS, *_DOORS),
    "credit/reinforce_plus_plus_baseline.py": ("credit/test_reinforce_plus_plus.py",),
    "credit/rloo.py": _GROUPS,
    "credit/turn_grpo.py": _TURNS,
    "credit/turn_level.py": _TURNS,
    "credit/weighting.py": ("credit/test_normalise.py",),
    "learner/microbatches.py": ("learner/test_microbatches.py",),
    "learner/objective.py": ("learner/test_objective.py",),
    "learner/schedule.py": ("learner/test_schedule.py",),
    "learner/training_data.py": ("learner/test_training_data.py",),
    "models/chat_format.py": ("rollout/test_chat_format.py", "rollout/test_chat.py"),
    "rollout/collect.py": ("rollout/test_text_session.py", "rollout/test_collect_settings.py"),
    "rollout/collect_games.py": (
        "rollout/test_game_session.py",
        "rollout/test_collect_settings.py",
        "rollout/test_connectors.py",
    ),
    "rollout/context.py": ("rollout/test_context.py",),
    "rollout/conversation.py": ("rollout/test_conversation.py", "rollout/test_connectors.py"),
    "rollout/engines/requests.py": ("rollout/test_requests.py", "rollout/test_uniforms.py"),
    "rollout/engines/sampling.py": ("rollout/test_sampling.py",),
    "rollout/env_answers.py": ("rollout/test_env_answers.py",),
    "rollout/episode_loop.py": ("rollout/test_episode_loop.py",),
    "rollout/game_answers.py": ("rollout/test_game_answers.py",),
    "rollout/game_session.py": ("rollout/test_game_session.py",),
    "rollout/session.py": ("rollout/test_episode_loop.py",),
    "rollout/specs.py": ("rollout/test_specs.py", "rollout/test_shares.py"),
    "rollout/text_session.py": ("rollout/test_text_session.py", "rollout/test_verdicts.py"),
}
"""Test files below tests/ by path below rllib_ragen/, for modules whose tests have neither their name nor folder."""

NAMED_ONLY: dict[str, tuple[str, ...]] = {
    "learner/learner.py": ("learner/test_coefficients.py",),
}
"""Likewise, of modules whose tests take too long for every change: those that have a name are tried (named.py)."""


def planned() -> dict[str, tuple[str, ...]]:
    """Returns the test files below tests/ of every module, by path below rllib_ragen/.

    A module of FOLDERS has `test_<module>.py` or `test_<module>_loss.py`, or those in ELSEWHERE, or else all tests of
    its folder.
    """
    found = {}
    for folder in FOLDERS:
        tests = TOP / "tests" / folder
        for path in sorted((TOP / "rllib_ragen" / folder).glob("*.py")):
            if path.stem != "__init__":
                own = [tests / f"test_{path.stem}.py", tests / f"test_{path.stem}_loss.py"]
                chosen = [one for one in own if one.exists()] or sorted(tests.glob("test_*.py"))
                found[f"{folder}/{path.name}"] = tuple(f"{folder}/{one.name}" for one in chosen)
    return found | ELSEWHERE | NAMED_ONLY


def digest(module: str) -> str:
    """Returns a digest of the module's code, of its named changes and of its tests."""
    files = [TOP / "rllib_ragen" / module, *(TOP / "tests" / name for name in planned()[module])]
    parts = [*(file.read_bytes() for file in files), repr(NAMED.get(module)).encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]
