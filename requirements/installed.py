"""Says, after an installation, what it is that was installed: which build of torch, and whether vLLM is there."""

from __future__ import annotations

import importlib.util
import platform
from importlib import metadata

FRAME = "*" * 100


def main() -> None:
    """Two lines when all is well; a frame around what is not."""
    torch = metadata.version("torch")
    print(f"Python {platform.python_version()}, torch {torch}, ray {metadata.version('ray')}")
    lacking = []
    if importlib.util.find_spec("vllm") is None:
        lacking += ["vLLM is NOT installed: sampling runs with transformers (rollout.engine=hf),"]
        lacking += ["and the tests of vLLM fail unless RLLIB_RAGEN_ALLOW_NO_VLLM=1."]
    if not torch.endswith("+cpu"):
        lacking += ["torch is the CUDA build (large, works without a GPU too): pip found no CPU build for this Python."]
        lacking += ["README, 'What you need', says where it is: make clean && make TORCH_INDEX=…"]
    print("\n".join([FRAME, *lacking, FRAME]) if lacking else "vLLM's CPU build is installed.")


if __name__ == "__main__":
    main()
