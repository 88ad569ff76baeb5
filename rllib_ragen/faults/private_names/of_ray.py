"""Ray's private names: actors of RLlib's groups, key-value store, environment registry, environment variables."""

from __future__ import annotations

import logging
from typing import Any

from ray.exceptions import RayError
from ray.experimental.internal_kv import _internal_kv_get, _internal_kv_initialized, _internal_kv_put
from ray.rllib.utils.actor_manager import FaultTolerantActorManager
from ray.tune.registry import ENV_CREATOR, _global_registry

from rllib_ragen.faults.private_names.need import need

logger = logging.getLogger(__name__)


class _Told:
    is_store_gone = False


def actor_manager(group: Any) -> FaultTolerantActorManager:
    """Returns the manager of the remote actors of an EnvRunnerGroup or a LearnerGroup."""
    manager: FaultTolerantActorManager = need(group, "_worker_manager", "ray")
    return manager


def actor_key(actor: Any) -> str:
    """Returns an actor's id in hex, as the actor sees it (`ray.get_runtime_context().get_actor_id()`)."""
    key: str = need(actor, "_actor_id", "ray").hex()
    return key


def write_note(key: str, text: str) -> None:
    """Puts a short text into the cluster's key-value store; without a store it only warns, once."""
    if not _internal_kv_initialized():
        return
    try:
        _internal_kv_put(key, text)
    except (RayError, OSError) as error:
        _tell_store_gone(error)


def read_note(key: str) -> str | None:
    """Reads the text of `write_note`; None if there is none, or no store, of which it warns once."""
    if not _internal_kv_initialized():
        return None
    try:
        found = _internal_kv_get(key)
    except (RayError, OSError) as error:
        _tell_store_gone(error)
        return None
    return None if found is None else found.decode()


def is_registered_env(name: str) -> bool:
    """Returns whether an environment of that name was registered with `ray.tune.register_env`."""
    return bool(_global_registry.contains(ENV_CREATOR, name))


def _tell_store_gone(error: Exception) -> None:
    # The store goes with the cluster, and whoever waits for an actor is told that by Ray itself: sampling need not
    # fail for a heartbeat. Anything else, such as a renamed argument, is raised: hangs would go unseen.
    if not _Told.is_store_gone:
        _Told.is_store_gone = True
        logger.warning("Ray's key-value store does not answer, so heartbeats are not seen: %s", error)
