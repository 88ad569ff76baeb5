"""RLlib's group of learners, for sharded weights."""

from __future__ import annotations

from ray.rllib.core import COMPONENT_LEARNER
from ray.rllib.core.learner.learner_group import LearnerGroup

from ragen_envs.tree import Tree
from rllib_ragen.faults.private_names.of_rllib import Components, chosen_parts
from rllib_ragen.learner.learner_calls import on_first_learner


class StarPOLearnerGroup(LearnerGroup):
    """A LearnerGroup whose `get_state` asks all learners: with sharded weights, one alone would wait for the others."""

    def get_state(
        self,
        components: Components = None,
        *,
        not_components: Components = None,
        **kwargs: object,
    ) -> Tree:
        """Returns the first learner's state, with gathered weights and moments."""
        is_asked, own, but = chosen_parts(self, COMPONENT_LEARNER, components, not_components)
        if not is_asked:
            return {}
        return {COMPONENT_LEARNER: on_first_learner(self, lambda x: x.get_state(own, not_components=but, **kwargs))}
