"""A config on its way: into copies, Tune's dictionaries and other processes, and back."""

from __future__ import annotations

import difflib
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Self, cast

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.tune.result import TRIAL_INFO

from ragen_envs.tree import Tree
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.reward_section import reward_names
from rllib_ragen.faults.private_names.of_rllib import attribute_of_key
from rllib_ragen.starpo.env_registry import SEVERAL
from rllib_ragen.starpo.setters import FluentSetters
from rllib_ragen.starpo.users_names import Registered, registered_for, take_registered

_TUNE_KEYS = {TRIAL_INFO, "__stdout_file__", "__stderr_file__", "multiagent", "class", "_enable_new_api_stack"}
_OLD_STACK_KEYS = {"model", "optimizer", "replay_buffer_config"}
_REGISTERED = "registered_in_python"
"""Key of `users_names` in the dict that is sent to other processes."""


class PortableConfig(FluentSetters):
    """A config that arrives as it was sent, with what users registered in Python."""

    trial_id: str = ""
    """Tune's name of the trial that this is the config of; empty outside of Tune."""

    @abstractmethod
    def _text_env_name(self) -> str | None:
        """Returns the short name of the environment; None: somebody else's, by RLlib's register_env."""

    def update_from_dict(self, config_dict: Mapping[str, Any] | AlgorithmConfig) -> Self:
        """Returns the same as AlgorithmConfig's, but unknown keys are refused.

        Raises:
            ValueError: an unknown key, with the nearest known one.
        """
        given: Tree = config_dict.to_dict() if isinstance(config_dict, AlgorithmConfig) else dict(config_dict)
        for key in given:
            name = attribute_of_key(self, key)
            if not hasattr(self, name) and name not in _TUNE_KEYS and name != _REGISTERED:
                near = difflib.get_close_matches(key, list(vars(self)), n=1)
                raise ConfigError(f"unknown key {key!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        take_registered(cast(Registered, given.pop(_REGISTERED, {})))
        for key in _OLD_STACK_KEYS & given.keys():
            # RLlib would merge these with what is there, or hand training() one that it does not have.
            setattr(self, key, given.pop(key))
        if "env" in given:
            self.environment(given.pop("env"))
        super().update_from_dict(given)
        if TRIAL_INFO in given:
            # RLlib drops it, and leaves an algorithm's own `trial_id` at "default".
            self.trial_id = given[TRIAL_INFO].trial_id
        return self

    def to_dict(self) -> Tree:
        """Returns AlgorithmConfig's dict, with the things that were registered in Python under its names, for Tune's
        trials.
        """
        found: Tree = super().to_dict()
        found.pop(_REGISTERED, None)
        return {**found, _REGISTERED: sent} if (sent := self._registered()) else found

    def get_state(self) -> Tree:
        """Returns the same as AlgorithmConfig's, which `build_algo` copies a config by, with settings that are −1.

        RLlib leaves them out, because −1 is its mark of deprecated ones, and the copy has their defaults.
        """
        own = {name: value for name, value in vars(self).items() if name not in ("algo_class", "_is_frozen")}
        return {**own, **super().get_state()}

    def __getstate__(self) -> Tree:
        return {**vars(self), _REGISTERED: self._registered()}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        own = dict(state)
        take_registered(own.pop(_REGISTERED))
        self.__dict__.update(own)

    def _registered(self) -> Registered:
        names = [str(entry.get("name")) for entry in self.env_config.get("envs", ())] if self.env == SEVERAL else []
        return registered_for(
            environments=names or [self._text_env_name()],
            estimator=self.estimator,
            filter=self.filter,
            loss=self.loss,
            rewards=reward_names(self.rewards),
        )
