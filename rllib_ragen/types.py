"""The vocabulary of the project, on one page: what is sampled, what a trajectory is, what the learner sees."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int32]
FloatArray = npt.NDArray[np.float32]
DEFAULT_MODULE = "default_policy"
"""RLlib's name of the policy of a run that has only one."""


class StopReason(StrEnum):
    """Why an episode ended."""

    GOAL = "goal"
    """The task's goal was reached."""
    FAILED = "failed"
    """The task ended without its goal (a hole, a wrong final answer)."""
    MAX_TURNS = "max_turns"
    """The cap on turns."""
    MAX_ACTIONS = "max_actions"
    """The cap on actions."""
    CONTEXT_FULL = "context_full"
    """The next prompt, or one more token, would not fit the model's length."""
    ENV_ERROR = "env_error"
    """The environment raised; the trajectory is dropped before any statistic."""
    ENGINE_ERROR = "engine_error"
    """Generation failed, or gave non-finite log-probs; dropped likewise."""
    REWARD_ERROR = "reward_error"
    """A reward function raised, hung or gave no number; dropped likewise."""

    @property
    def failed(self) -> bool:
        """Whether the trajectory must not count: not in a group's statistics, not in an update."""
        return self in (StopReason.ENV_ERROR, StopReason.ENGINE_ERROR, StopReason.REWARD_ERROR)


@dataclass(frozen=True)
class Sampling:
    """How one reply is sampled.

    Log-probs are those of the distribution that is sampled from: temperature-scaled, full vocabulary
    (renormalised over the kept tokens if top_p < 1 or top_k > 0). temperature 0 means greedy; its log-probs are the
    untempered ones.
    """

    max_tokens: int
    stop_token_ids: tuple[int, ...]
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    """Seeds this request alone: the same seed and prompt give the same reply, whatever else is in the batch."""


@dataclass(frozen=True)
class Sampled:
    """One sampled reply. The stop token, if sampled, is its last token."""

    token_ids: list[int]
    logprobs: list[float]
    """Behaviour log-prob of each token, in nats, at the sampling temperature."""
    finished: bool
    """True if a stop token was sampled, False if the reply hit max_tokens or the model's length."""
    policy_version: int
    """Number of updates of the weights that sampled it."""
    cached_tokens: int = field(default=0, compare=False)
    """Prompt tokens that the engine did not compute again: how it was made, not what it is."""


@dataclass
class Turn:
    """One turn: what the prompt gained, what the model sampled, what the environment said."""

    prompt_ids: IntArray
    """Tokens the context gained since the last sampled token: never trained."""
    reply_ids: IntArray
    """Tokens the model sampled: exactly these are trained."""
    logprobs: FloatArray
    """[len(reply_ids)] behaviour log-probs."""
    reward: float
    """What is trained on: the environment's reward, or the weighted sum with others (`rewards`)."""
    policy_version: int
    valid: bool = True
    """A valid action ran."""
    num_actions: int = 0
    cached_tokens: int = 0
    """Tokens of the whole context before the reply that the engine did not compute again."""
    prompt: str = ""
    """The user message, for people to read; never tokenised again."""
    state: str = ""
    """The environment's state in which the turn was taken, as text without counters: equal states, equal texts."""
    reply: str = ""
    """The decoded reply, for people and for the environment; never tokenised again."""
    raw_reward: float | None = None
    """The environment's reward, where `reward` is a sum with others; None: `reward` is it."""

    @property
    def env_reward(self) -> float:
        """The environment's own reward, whatever else is trained on."""
        return self.reward if self.raw_reward is None else self.raw_reward


@dataclass
class Trajectory:
    """One episode of one agent. Concatenate prompt_ids, reply_ids, prompt_ids, … and you have what the engine saw."""

    group_id: str
    """Names the (policy, role, task instance) whose trajectories are compared with each other."""
    env_seed: int
    outcome_seed: int
    turns: list[Turn] = field(default_factory=list)
    stop_reason: StopReason = StopReason.MAX_TURNS
    success: bool = False
    module_id: str = DEFAULT_MODULE
    agent_id: str = "default_agent"
    error: str = ""
    """What went wrong, if stop_reason.failed."""
    outcome: str = ""
    """Result of a game that says so: win, draw or loss."""
    index: int = field(default=-1, compare=False)
    """Place in the batch that an iteration learns from; −1: in none."""
    instance_key: str = ""
    """Canonical text of the task instance; empty where the environment names none."""
    rewards: dict[str, float] = field(default_factory=dict)
    """What each function of `rewards` gave, before its weight, summed over the turns; by label."""
    env: str = ""
    """Label of the environment among several of a run; empty: it is the only one."""
    level: int = -1
    """Index of the curriculum's level; −1: there is no curriculum."""

    @property
    def instance(self) -> str:
        """What tells task instances apart: their key, or else the seed that they were drawn with."""
        return self.instance_key or f"seed {self.env_seed}"

    @property
    def episode_return(self) -> float:
        """Σ of the turns' rewards: what is trained on, before filters, normalisation and penalties."""
        return float(sum(turn.reward for turn in self.turns))

    @property
    def env_return(self) -> float:
        """Σ of the environment's own rewards."""
        return float(sum(turn.env_reward for turn in self.turns))

    @property
    def num_tokens(self) -> int:
        """Prompt and reply tokens."""
        return sum(len(turn.prompt_ids) + len(turn.reply_ids) for turn in self.turns)

    @property
    def num_reply_tokens(self) -> int:
        """Sampled tokens: the number of trained positions."""
        return sum(len(turn.reply_ids) for turn in self.turns)

    def token_ids(self) -> IntArray:
        """Returns [num_tokens] the exact token stream."""
        parts = [ids for turn in self.turns for ids in (turn.prompt_ids, turn.reply_ids)]
        return np.concatenate(parts) if parts else np.zeros(0, np.int32)

    def turn_index(self) -> IntArray:
        """Returns [num_tokens] the turn whose reply a token belongs to, −1 for prompt tokens. Its ≥ 0 is the loss
        mask.
        """
        parts = [np.full(n, k, np.int32) for i, t in enumerate(self.turns) for n, k in _spans(t, i)]
        return np.concatenate(parts) if parts else np.zeros(0, np.int32)

    def behaviour_logprobs(self) -> FloatArray:
        """Returns [num_tokens] the sampler's log-probs, 0 on prompt tokens."""
        parts = [a for t in self.turns for a in (np.zeros(len(t.prompt_ids), np.float32), t.logprobs)]
        return np.concatenate(parts) if parts else np.zeros(0, np.float32)


def _spans(turn: Turn, index: int) -> tuple[tuple[int, int], tuple[int, int]]:
    return (len(turn.prompt_ids), -1), (len(turn.reply_ids), index)


@dataclass
class TokenRow:
    """One trajectory as the learner sees it; all arrays are [length] and aligned with `token_ids`.

    Position i of `mask`, `logprobs`, `advantages` and `returns` speaks of token i itself (the one predicted from
    tokens < i); positions outside the mask are 0. The first token is never in the mask.
    """

    token_ids: IntArray
    mask: FloatArray
    logprobs: FloatArray
    advantages: FloatArray
    returns: FloatArray
    """Targets of the critic; zeros when the estimator has none."""
    old_values: FloatArray
    """The critic's values when the batch was sampled, for value clipping; zeros when there is none."""
    weight: float = 1.0
    """Factor on this trajectory's policy loss."""
    module_id: str = DEFAULT_MODULE
    index: int = field(default=-1, compare=False)
    """Place among the rows of an update; −1: in none."""

    @property
    def num_tokens(self) -> int:
        """Padded length is counted elsewhere: this is the true one."""
        return len(self.token_ids)

    @property
    def num_trained_tokens(self) -> int:
        """Positions in the mask."""
        return int(self.mask.sum())
