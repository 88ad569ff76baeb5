"""StarPOConfig's part about the diagnostics."""

from __future__ import annotations

from typing import Any, Self

from ray.rllib.algorithms.algorithm_config import NotProvided

from rllib_ragen.config import DiagnosticsSection


class DiagnosticsSetters:
    """Mixed into StarPOConfig."""

    to_run_config: Any

    def diagnostics(
        self,
        *,
        diagnostics_interval: int = NotProvided,
        diagnostics_num_prompts: int = NotProvided,
        high_entropy: float = NotProvided,
        high_information: float = NotProvided,
    ) -> Self:
        """How often it is measured how much reasoning depends on the prompt (docs/diagnostics.md).

        Args:
            diagnostics_interval: iterations between measurements; 0: none.
            diagnostics_num_prompts: thoughts of one measurement, each scored after every prompt.
            high_entropy: nats per token from which H(Z|X) counts as high.
            high_information: share of H(X) from which I(X;Z) counts as high.
        """
        given = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        for name, value in given.items():
            if value is not NotProvided:
                setattr(self, name, value)
        return self

    def diagnostics_section(self) -> DiagnosticsSection:
        """The settings of the information diagnostics."""
        section: DiagnosticsSection = self.to_run_config().diagnostics
        return section
