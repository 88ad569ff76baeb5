"""Which alarms a run watches."""

from __future__ import annotations

from rllib_ragen.config.schema import RunConfig
from rllib_ragen.config.watching import AlarmsSection
from rllib_ragen.starpo.checks.combinations import who_compares


def watched_alarms(config: RunConfig) -> AlarmsSection:
    """Returns the run's alarms, without `nothing_to_compare` where nothing compares the members of a group."""
    if who_compares(config.credit) is None:
        return config.alarms.model_copy(update={"nothing_to_compare": "off"})
    return config.alarms
