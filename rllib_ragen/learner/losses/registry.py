"""Policy losses by name: the shipped ones, and the registry of users' own. Loads torch only with a loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, cast

from ragen_envs.open_names import OpenNames, check_function
from rllib_ragen.config.schema import LearnerSection

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class PolicyTokens:
    """The input of a policy loss: the N trained tokens of a micro-batch, one trajectory after the other."""

    log_ratio: Tensor
    """Log-ratio log π − log π_old of each token in nats; gradients flow through it."""
    advantages: Tensor
    rows: Tensor
    """Index of each token's trajectory, int64; all trained tokens of a trajectory are present."""
    config: LearnerSection
    """Settings of the update: `clip_low`, `clip_high` …"""


PolicyLoss: TypeAlias = "Callable[[PolicyTokens], tuple[Tensor, Tensor]]"
"""A function from PolicyTokens to (loss per token [N], whether a clip binds [N] bool), before weights and means."""


def register_loss(name: str, loss: PolicyLoss) -> None:
    """Registers a user's policy loss as `name`, for `learner.loss`.

    Args:
        name: letters, digits and `_ . + -`; a name that is registered already gets the new loss.
        loss: a function of PolicyTokens that returns loss and clip mask of each token.

    Raises:
        ValueError: the name of a shipped loss, or no function of one argument.
    """
    LOSSES.register(name, loss)


def checked_loss(name: str, tokens: PolicyTokens) -> tuple[Tensor, Tensor]:
    """Computes the loss and clip mask of each token, and checks their shapes.

    Raises:
        ValueError: no such loss, or one with another result.
    """
    returned = LOSSES.resolve(name, "learner.loss")(tokens)
    shapes = [getattr(one, "shape", None) for one in returned] if isinstance(returned, tuple) else [None]
    if shapes != [tokens.log_ratio.shape] * 2:
        raise ValueError(
            f"learner.loss={name} must return (loss, clipped), each a tensor of shape {list(tokens.log_ratio.shape)}"
        )
    return returned


def _check(thing: object) -> PolicyLoss:
    return cast("PolicyLoss", check_function(thing, "PolicyTokens"))


LOSSES: OpenNames[PolicyLoss] = OpenNames(
    "loss",
    "rllib_ragen.losses",
    {
        "token": "rllib_ragen.learner.losses.policy:token_loss",
        "log_likelihood": "rllib_ragen.learner.losses.policy:log_likelihood_loss",
        "sequence": "rllib_ragen.learner.losses.sequence:sequence_loss",
    },
    _check,
)
"""All policy losses by name."""
