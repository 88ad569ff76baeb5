"""The mistake that no single episode can be blamed for."""

from __future__ import annotations


class WholeBatchError(ValueError):
    """A mistake that is no episode's own, such as a policy that does not exist: it ends the whole batch."""
