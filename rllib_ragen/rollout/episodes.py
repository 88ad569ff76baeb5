"""Trajectory ↔ RLlib episode: one timestep is one turn, and the episode is the token-exact trajectory."""

from __future__ import annotations

import numpy as np
from ray.rllib.core.columns import Columns
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.metrics import WEIGHTS_SEQ_NO

from ragen_envs.tree import Tree
from rllib_ragen.types import StopReason, Trajectory, Turn

_TURN_FACTS = ("valid", "num_actions", "cached_tokens", "prompt", "state", "reply")
_NO_TOKENS = np.zeros(0, np.int32)


def to_episode(trajectory: Trajectory) -> SingleAgentEpisode:
    """Converts a trajectory into a list-mode SingleAgentEpisode.

    observations[t] are the token ids that the prompt gained in turn t, actions[t] the sampled ids, rewards[t] the
    turn's reward; extra_model_outputs hold the log-probs ("action_logp") and policy version ("weights_seq_no") of
    each turn, infos[t + 1] the texts of turn t. The observation after the last turn is empty, because nothing is
    sampled after it. Fields of the whole trajectory are in custom_data.

    A goal, a failure or an error terminates the episode; a cap or a full context truncates it.
    """
    turns = trajectory.turns
    truncated = trajectory.stop_reason in (StopReason.MAX_TURNS, StopReason.MAX_ACTIONS, StopReason.CONTEXT_FULL)
    episode = SingleAgentEpisode(
        observations=[*(turn.prompt_ids for turn in turns), _NO_TOKENS],
        actions=[turn.reply_ids for turn in turns],
        rewards=[turn.reward for turn in turns],
        infos=[{}, *(_info(turn) for turn in turns)],
        terminated=not truncated,
        truncated=truncated,
        extra_model_outputs={
            Columns.ACTION_LOGP: [turn.logprobs for turn in turns],
            WEIGHTS_SEQ_NO: [turn.policy_version for turn in turns],
        },
        agent_id=trajectory.agent_id,
        module_id=trajectory.module_id,
        len_lookback_buffer=0,
    )
    episode.custom_data.update(
        group_id=trajectory.group_id,
        env_seed=trajectory.env_seed,
        outcome_seed=trajectory.outcome_seed,
        stop_reason=str(trajectory.stop_reason),
        success=trajectory.success,
        error=trajectory.error,
        outcome=trajectory.outcome,
        instance_key=trajectory.instance_key,
    )
    return episode


def to_trajectory(episode: SingleAgentEpisode) -> Trajectory:
    """Inverts `to_episode`; callbacks may have changed the episode's rewards in between."""
    fields = episode.custom_data
    logprobs = episode.extra_model_outputs[Columns.ACTION_LOGP].data
    versions = episode.extra_model_outputs[WEIGHTS_SEQ_NO].data
    return Trajectory(
        group_id=fields["group_id"],
        env_seed=fields["env_seed"],
        outcome_seed=fields["outcome_seed"],
        turns=[
            Turn(
                prompt_ids=episode.observations.data[t],
                reply_ids=reply_ids,
                logprobs=logprobs[t],
                reward=float(episode.rewards.data[t]),
                policy_version=versions[t],
                **episode.infos.data[t + 1],
            )
            for t, reply_ids in enumerate(episode.actions.data)
        ],
        stop_reason=StopReason(fields["stop_reason"]),
        success=fields["success"],
        module_id=episode.module_id,
        agent_id=episode.agent_id,
        error=fields["error"],
        outcome=fields["outcome"],
        instance_key=fields["instance_key"],
    )


def _info(turn: Turn) -> Tree:
    return {name: getattr(turn, name) for name in _TURN_FACTS}
