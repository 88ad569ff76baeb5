"""Trajectory ↔ RLlib episode: one timestep is one turn, and the episode is the token-exact trajectory."""

from __future__ import annotations

import numpy as np
from ray.rllib.core.columns import Columns
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.metrics import WEIGHTS_SEQ_NO

from ragen_envs.tree import Tree
from rllib_ragen.rollout.conversation import Heard
from rllib_ragen.types import IntArray, StopReason, Trajectory, Turn

_TURN_FACTS = ("valid", "num_actions", "cached_tokens", "prompt", "state", "reply")
_FACTS = (
    *("group_id", "env_seed", "outcome_seed", "instance_key", "env", "level"),
    *("success", "outcome", "error"),
)
"""What of a trajectory is no turn's, but for why it stopped."""
_NO_TOKENS: IntArray = np.zeros(0, np.int32)


class TextEpisode(SingleAgentEpisode):
    """What RLlib's callbacks get of one agent: a list-mode SingleAgentEpisode, while it is played and afterwards.

    observations[t] are the token ids that the prompt gained in turn t, actions[t] the sampled ids, rewards[t] the
    turn's reward; extra_model_outputs hold the log-probs ("action_logp") and policy version ("weights_seq_no") of
    each turn. infos[0] is the first prompt in words, infos[t + 1] what turn t was. The last observation is the newest
    prompt, which has no reply yet; once the episode is over it is empty. Trajectory-wide facts are in custom_data:
    group_id, env_seed, outcome_seed, split, instance_key, of several environments its label (env) and of a curriculum
    its level; and, at its end, stop_reason, success, outcome, error.

    What a callback writes into `rewards.data` is what is learnt from; `turns` and `trajectory` are read from there.

    A goal, a failure or an error terminates the episode; a cap or a full context truncates it.
    """

    @property
    def turns(self) -> list[Turn]:
        """Turns so far, each with prompt, reply and state in words, token ids, log-probs and reward."""
        logprobs = self.extra_model_outputs[Columns.ACTION_LOGP].data
        versions = self.extra_model_outputs[WEIGHTS_SEQ_NO].data
        return [
            Turn(
                prompt_ids=self.observations.data[t],
                reply_ids=reply_ids,
                logprobs=logprobs[t],
                reward=float(self.rewards.data[t]),
                policy_version=versions[t],
                **self.infos.data[t + 1],
            )
            for t, reply_ids in enumerate(self.actions.data)
        ]

    @property
    def trajectory(self) -> Trajectory:
        """The same as this project's own record; `stop_reason` means something when the episode is done."""
        facts = self.custom_data
        return Trajectory(
            **{name: facts[name] for name in _FACTS},
            turns=self.turns,
            stop_reason=StopReason(facts["stop_reason"] or StopReason.MAX_TURNS),
            module_id=self.module_id,
            agent_id=self.agent_id,
        )


class LiveEpisode:
    """An RLlib episode that grows with the trajectory of an agent that is playing."""

    def __init__(self, trajectory: Trajectory, split: str = "") -> None:
        """`split`: of the task instance, where it is known."""
        self.episode = TextEpisode(
            agent_id=trajectory.agent_id,
            module_id=trajectory.module_id,
            extra_model_outputs={Columns.ACTION_LOGP: [], WEIGHTS_SEQ_NO: []},
            len_lookback_buffer=0,
        )
        self._trajectory = trajectory
        self._told = 0.0
        """Reward of the newest turn, as far as the episode has been told of it."""
        self.episode.custom_data["split"] = split
        self._state_facts(stop_reason="")

    def catch_up(self, heard: Heard) -> TextEpisode:
        """Adds what has happened since the last call; `heard` is the newest prompt, if it has no reply yet."""
        episode, turns = self.episode, self._trajectory.turns
        self._state_facts(stop_reason="")
        if not episode.is_reset:
            first = Heard(turns[0].prompt_ids, turns[0].prompt, turns[0].state) if turns else heard
            episode.add_env_reset(first.token_ids, infos={"prompt": first.prompt, "state": first.state})
        known = len(episode)
        if known and (paid := turns[known - 1].reward) != self._told:
            # In a game an agent is paid for its last turn while others move. A callback's own change stays.
            told = episode.rewards.data[known - 1]
            episode.rewards.data[known - 1] = paid if told == self._told else told + paid - self._told
        for turn in turns[known:]:
            episode.observations.data[-1] = turn.prompt_ids
            episode.add_env_step(
                _NO_TOKENS,
                turn.reply_ids,
                turn.reward,
                infos={name: getattr(turn, name) for name in _TURN_FACTS},
                extra_model_outputs={Columns.ACTION_LOGP: turn.logprobs, WEIGHTS_SEQ_NO: turn.policy_version},
            )
        if turns:
            self._told = turns[-1].reward
        episode.observations.data[-1] = heard.token_ids
        return episode

    def close(self) -> TextEpisode:
        """Returns the episode of the whole trajectory, which is over."""
        episode = self.catch_up(Heard())
        reason = self._trajectory.stop_reason
        truncated = reason in (StopReason.MAX_TURNS, StopReason.MAX_ACTIONS, StopReason.CONTEXT_FULL)
        episode.is_terminated, episode.is_truncated = not truncated, truncated
        self._state_facts(stop_reason=str(reason))
        return episode

    def _state_facts(self, stop_reason: str) -> None:
        trajectory = self._trajectory
        facts: Tree = {name: getattr(trajectory, name) for name in _FACTS}
        self.episode.custom_data.update(facts, stop_reason=stop_reason)
