"""Text environments for LLM agents: gymnasium and numpy only, never Ray, torch or transformers."""

from ragen_envs.registry import env_names, make_task, make_text_env
from ragen_envs.text import TextEnv, TextLimits

__all__ = ["TextEnv", "TextLimits", "env_names", "make_task", "make_text_env"]
