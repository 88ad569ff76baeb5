"""Start of Ray for one run: local and quiet, or the cluster of RAY_ADDRESS."""

from __future__ import annotations

import logging
import math
import os
import socket
import sys
from urllib.parse import urlsplit

from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.faults.exit_codes import WorkersLost
from rllib_ragen.models.quiet_libraries import quieten
from rllib_ragen.run.users_modules import users_modules

_TRIES = 3
"""Attempts to start a local Ray: chosen freely, three of Ray's own 30 s."""
_TOO_SLOW = "timed out during startup"
_NO_PLACES = ("auto", "local")
"""Values of RAY_ADDRESS that name no host."""
_CLIENT_PORT = 10001
"""Default port of `ray://HOST`, Ray's own."""
_ANSWER_S = 10.0
"""Longest wait for a connection in seconds: chosen freely, far above a round trip."""


def start_ray(config: RunConfig) -> None:
    """Connects to RAY_ADDRESS if that is set, else starts a local Ray with enough resources; uses Ray if it is started.

    Users' modules that import paths name (`users_modules`) are sent to a cluster, unless they are in a Ray job's
    working directory.

    Raises:
        ConfigError: the cluster has fewer CPUs or GPUs than the run's actors ask for, so they would wait for ever.
        WorkersLost: no local Ray can be started.
    """
    set_thread_waits()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    if not os.environ.get("RAY_ADDRESS"):
        # Ray's C++ core calls it an error that RLlib passes its config by reference to actors that may restart.
        os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
        # Ray's name for "no other machine takes part": its servers listen on the loopback address alone, as they do on
        # macOS. Without it GCS, raylet and every worker listen on all addresses.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    import ray

    if ray.is_initialized():
        pass  # A notebook's own: it has what its owner gave it, or is told below what it lacks.
    elif os.environ.get("RAY_ADDRESS"):
        try:
            sent = users_modules(config)
            ray.init(logging_level=logging.ERROR, runtime_env={"py_modules": sent} if sent else None)
        except ConnectionError as error:
            # `auto` without a cluster, or a server that is not Ray.
            raise ConfigError(f"RAY_ADDRESS={os.environ['RAY_ADDRESS']}: {' '.join(str(error).split())}") from None
    else:
        start_local(max(os.cpu_count() or 1, cpus_wanted(config)))
    quieten()
    have = ray.cluster_resources()
    for kind, wanted in (("CPU", float(cpus_wanted(config))), ("GPU", gpus_wanted(config))):
        if have.get(kind, 0.0) < wanted:
            raise ConfigError(
                f"rollout.num_env_runners and learner.num_learners ask for {wanted:g} {kind}s in all,"
                f" but Ray has {have.get(kind, 0.0):g}"
            )


def set_thread_waits() -> None:
    """Sets how torch's threads wait for work, by a variable that is read once, when torch is loaded.

    Spinning threads are some 30 % faster on an idle machine, but several times slower beside a single other busy
    process: each step waits for a thread without a core.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def check_ray_address() -> None:
    """Checks that RAY_ADDRESS answers; Ray itself would try for minutes without a message.

    Raises:
        ConfigError: it does not.
    """
    address = os.environ.get("RAY_ADDRESS", "")
    if not address or address in _NO_PLACES:
        return
    place = urlsplit(address if "://" in address else f"//{address}")
    try:
        host, port = place.hostname, place.port or _CLIENT_PORT
    except ValueError:
        host, port = None, 0
    if not host or (place.port is None and place.scheme != "ray"):
        raise ConfigError(f"RAY_ADDRESS={address} must be HOST:PORT, ray://HOST:PORT, or auto")
    try:
        socket.create_connection((host, port), timeout=_ANSWER_S).close()
    except OSError as error:
        why = error.strerror or str(error) or type(error).__name__
        raise ConfigError(
            f"RAY_ADDRESS={address}: nobody answers there ({why}); start Ray there (ray start --head), or unset"
            " RAY_ADDRESS for a Ray of the run's own"
        ) from None


def start_local(cpus: int) -> None:
    """Starts this run's own Ray, not one that already runs on this machine.

    Ray gives its processes a fixed 30 s to start, which may be too short on a busy machine.
    """
    import ray

    for tries_left in reversed(range(_TRIES)):
        try:
            ray.init("local", num_cpus=cpus, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
            return
        except Exception as error:
            if _TOO_SLOW not in str(error):
                raise
            if not tries_left:
                raise WorkersLost(f"Ray did not start within 30 s, {_TRIES} times: is the machine too busy?") from error
            print("Ray did not start within 30 s (a busy machine?): once more", file=sys.stderr, flush=True)
            ray.shutdown()


def cpus_wanted(config: RunConfig) -> int:
    """Returns the number of CPUs: one for each actor, and one for the driver."""
    return config.rollout.num_env_runners + config.learner.num_learners + 1


def gpus_wanted(config: RunConfig) -> float:
    """Returns the number of GPUs of all actors; fractions of a GPU share one, whole ones do not."""
    runners = config.rollout.num_env_runners * config.rollout.num_gpus_per_env_runner
    learners = max(1, config.learner.num_learners) * config.learner.num_gpus_per_learner
    total = runners + learners
    return float(math.ceil(total - 1e-9))
