"""Policy losses by name: the shipped ones, and the door for a user's own. Loads torch only with a loss."""

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
    """What a policy loss is computed from: the N trained tokens of a micro-batch, one trajectory after the other."""

    log_ratio: Tensor
    """log π − log π_old of each token in nats; gradients flow through it."""
    advantages: Tensor
    rows: Tensor
    """int64: the trajectory that a token belongs to; all of its trained tokens are at hand."""
    config: LearnerSection
    """The settings of the update: `clip_low`, `clip_high` …"""


PolicyLoss: TypeAlias = "Callable[[PolicyTokens], tuple[Tensor, Tensor]]"
"""(loss per token [N], to be minimised; where a clip binds [N] bool). Weights and means come afterwards."""


def register_loss(name: str, loss: PolicyLoss) -> None:
    """Makes a user's policy loss known as `name`, for `learner.loss`.

    Args:
        name: letters, digits and `_ . + -`; a name that is registered already gets the new loss.
        loss: a function of PolicyTokens that returns loss and clip mask of each token.

    Raises:
        ValueError: the name of a shipped loss, or no function of one argument.
    """
    LOSSES.register(name, loss)


def find_loss(name: str) -> PolicyLoss:
    """Returns the loss of that name.

    Raises:
        ValueError: no such loss; one sentence that names the key.
    """
    try:
        return LOSSES.resolve(name)
    except ValueError as error:
        raise ValueError(f"learner.loss: {error}") from error


def checked_loss(name: str, tokens: PolicyTokens) -> tuple[Tensor, Tensor]:
    """Loss and clip mask of each token.

    Raises:
        ValueError: no such loss, or one that returns something else.
    """
    returned = find_loss(name)(tokens)
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
