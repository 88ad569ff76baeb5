"""Methods of RLlib's algorithms that have no meaning for a policy of text: each says what to call instead."""

from __future__ import annotations

from typing import NoReturn

from rllib_ragen.faults.private_names.of_rllib import AlgorithmWithoutEvaluators

_CHAT = "call algo.chat(messages), with messages as [{'role': 'user', 'content': '…'}]"
_PLAN = "policies are said before the algorithm is built: multi_agent(policies=…, policies_to_train=…)"
_EXPORT = "call algo.export_model(folder), which writes a transformers folder"


def _refuse(method: str, instead: str) -> NoReturn:
    raise ValueError(f"StarPO.{method}: {instead}")


class RefusedMethods(AlgorithmWithoutEvaluators):
    """An algorithm on the new API stack alone, whose policies are there from the beginning."""

    def compute_single_action(self, *args: object, **kwargs: object) -> NoReturn:
        """Raises ValueError with what to call instead."""
        _refuse("compute_single_action", _CHAT)

    def compute_actions(self, *args: object, **kwargs: object) -> NoReturn:
        """Raises ValueError with what to call instead."""
        _refuse("compute_actions", _CHAT)

    def get_policy(self, *args: object, **kwargs: object) -> NoReturn:
        """Raises ValueError with what to call instead."""
        _refuse("get_policy", f"the policy is algo.get_module(policy_id); to talk to it {_CHAT}")

    def add_policy(self, *args: object, **kwargs: object) -> NoReturn:
        """Raises ValueError with what to call instead."""
        _refuse("add_policy", _PLAN)

    def remove_policy(self, *args: object, **kwargs: object) -> NoReturn:
        """Raises ValueError with what to call instead."""
        _refuse("remove_policy", _PLAN)

    def add_module(self, *args: object, **kwargs: object) -> NoReturn:
        """Raises ValueError with what to call instead."""
        _refuse("add_module", _PLAN)

    def remove_module(self, *args: object, **kwargs: object) -> NoReturn:
        """Raises ValueError with what to call instead."""
        _refuse("remove_module", _PLAN)

    def evaluate_offline(self) -> NoReturn:
        """Raises ValueError with what to call instead."""
        _refuse("evaluate_offline", "call algo.evaluate_split(split, num_instances, greedy), which plays episodes")

    def export_policy_model(self, *args: object, **kwargs: object) -> NoReturn:
        """Raises ValueError with what to call instead."""
        _refuse("export_policy_model", _EXPORT)

    def export_policy_checkpoint(self, *args: object, **kwargs: object) -> NoReturn:
        """Raises ValueError with what to call instead."""
        _refuse("export_policy_checkpoint", _EXPORT)
