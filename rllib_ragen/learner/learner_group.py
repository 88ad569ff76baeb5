"""RLlib's group of learners, for weights that no single learner has as a whole."""

from __future__ import annotations

from ray.rllib.core import COMPONENT_LEARNER
from ray.rllib.core.learner.learner_group import LearnerGroup

from ragen_envs.tree import Tree
from rllib_ragen.faults.private_names.of_rllib import Components, chosen_parts
from rllib_ragen.learner.learner_calls import on_first_learner


class StarPOLearnerGroup(LearnerGroup):
    """As LearnerGroup, whose `get_state` asks one learner alone; that one would wait for the others for ever."""

    def get_state(
        self,
        components: Components = None,
        *,
        not_components: Components = None,
        **kwargs: object,
    ) -> Tree:
        """Returns the first learner's state, whole weights and moments."""
        is_asked, own, but = chosen_parts(self, COMPONENT_LEARNER, components, not_components)
        if not is_asked:
            return {}
        return {COMPONENT_LEARNER: on_first_learner(self, lambda x: x.get_state(own, not_components=but, **kwargs))}
