"""RAGEN's agent training (StarPO) as a first-class citizen of Ray RLlib. docs/python.md documents the names below.

They are loaded when they are first used: importing the package loads neither Ray nor torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragen_envs.certify import check_text_env as check_text_env
    from ragen_envs.games.game import TextGame as TextGame
    from ragen_envs.registry import make_text_env as make_text_env
    from ragen_envs.registry import register_text_env as register_text_env
    from ragen_envs.task import TextTask as TextTask
    from ragen_envs.text import TextEnv as TextEnv
    from ragen_envs.text import TextLimits as TextLimits
    from rllib_ragen.config.errors import ConfigError as ConfigError
    from rllib_ragen.config.schema import RunConfig as RunConfig
    from rllib_ragen.credit.estimator import Estimator as Estimator
    from rllib_ragen.credit.filter_rules import register_filter as register_filter
    from rllib_ragen.credit.registry import register_estimator as register_estimator
    from rllib_ragen.credit.rewards.registry import register_reward as register_reward
    from rllib_ragen.learner.losses.registry import register_loss as register_loss
    from rllib_ragen.rollout.connectors import TokeniseObservations as TokeniseObservations
    from rllib_ragen.run.result import load_run as load_run
    from rllib_ragen.run.train import train as train
    from rllib_ragen.starpo.algorithm import StarPO as StarPO
    from rllib_ragen.starpo.config import StarPOConfig as StarPOConfig
    from rllib_ragen.starpo.learner_connectors import AssignCredit as AssignCredit
    from rllib_ragen.types import StopReason as StopReason
    from rllib_ragen.types import Trajectory as Trajectory
    from rllib_ragen.types import Turn as Turn

__version__ = "0.1.0"
# Commands of few files have one room: `python -m rllib_ragen.new_env` finds rllib_ragen/commands/new_env.
__path__.append(f"{__path__[0]}/commands")
_MODULES = {
    "AssignCredit": "rllib_ragen.starpo.learner_connectors",
    "ConfigError": "rllib_ragen.config.errors",
    "Estimator": "rllib_ragen.credit.estimator",
    "RunConfig": "rllib_ragen.config.schema",
    "StarPO": "rllib_ragen.starpo.algorithm",
    "StarPOConfig": "rllib_ragen.starpo.config",
    "StopReason": "rllib_ragen.types",
    "TextEnv": "ragen_envs.text",
    "TextGame": "ragen_envs.games.game",
    "TextLimits": "ragen_envs.text",
    "TextTask": "ragen_envs.task",
    "TokeniseObservations": "rllib_ragen.rollout.connectors",
    "Trajectory": "rllib_ragen.types",
    "Turn": "rllib_ragen.types",
    "check_text_env": "ragen_envs.certify",
    "load_run": "rllib_ragen.run.result",
    "make_text_env": "ragen_envs.registry",
    "register_estimator": "rllib_ragen.credit.registry",
    "register_filter": "rllib_ragen.credit.filter_rules",
    "register_loss": "rllib_ragen.learner.losses.registry",
    "register_reward": "rllib_ragen.credit.rewards.registry",
    "register_text_env": "ragen_envs.registry",
    "train": "rllib_ragen.run.train",
}
__all__ = [
    "AssignCredit",
    "ConfigError",
    "Estimator",
    "RunConfig",
    "StarPO",
    "StarPOConfig",
    "StopReason",
    "TextEnv",
    "TextGame",
    "TextLimits",
    "TextTask",
    "TokeniseObservations",
    "Trajectory",
    "Turn",
    "check_text_env",
    "load_run",
    "make_text_env",
    "register_estimator",
    "register_filter",
    "register_loss",
    "register_reward",
    "register_text_env",
    "train",
]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(_MODULES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
