"""Sections of what watches a run: timeouts and alarms."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from rllib_ragen.config.section import MOST, Section


class FaultSection(Section):
    """Timeouts after which something that hangs is reported, replaced or given up (docs/faults.md)."""

    report_after_s: float = Field(
        60.0, gt=0, le=MOST, description="seconds without progress after which a run says why"
    )
    hang_timeout_s: float = Field(
        1800.0, gt=0, le=MOST, description="seconds without progress after which a runner is replaced, or the run stops"
    )
    max_runner_gib: float | None = Field(
        None,
        gt=0,
        le=1e6,
        description="resident memory from which an env runner is restarted after its batch; null: never",
    )


AlarmMode = Literal["off", "warn", "stop"]


class AlarmsSection(Section):
    """The effect of each alarm: none, a warning, or a warning and the end of the run (docs/diagnostics.md)."""

    reward_std_collapse: AlarmMode = Field("warn", description="members of a group are all rewarded alike")
    entropy_collapse: AlarmMode = Field("warn", description="the policy hardly samples any more")
    gradient_spike: AlarmMode = Field("warn", description="a gradient norm far out of its recent range")
    reward_cliff: AlarmMode = Field("warn", description="the return has fallen far below its best")
    validation_failure: AlarmMode = Field("warn", description="validation after validation without success")
    empty_filter: AlarmMode = Field("warn", description="batch after batch has nothing to learn from")
    non_finite: AlarmMode = Field("warn", description="a loss, an entropy or a gradient is no finite number")
    format_hacking: AlarmMode = Field("warn", description="well-formed replies whose thought is empty")
    repetition: AlarmMode = Field("warn", description="replies say the same over and over")
    length_blowup: AlarmMode = Field("warn", description="replies have become much longer")
    sampler_gap: AlarmMode = Field("warn", description="sampler and learner disagree about log-probs")
    no_valid_reply: AlarmMode = Field("warn", description="no reply holds a valid action")
    nothing_to_compare: AlarmMode = Field("warn", description="the members of no group differ in their return")
