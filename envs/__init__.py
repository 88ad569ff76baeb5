"""Text environments for LLM agents: gymnasium and numpy only, never Ray, torch or transformers."""

from envs.registry import env_names, make_task, make_text_env
from envs.text import TextEnv, TextLimits

__all__ = ["TextEnv", "TextLimits", "env_names", "make_task", "make_text_env"]
