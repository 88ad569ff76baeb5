"""Mutation testing of the code that learning rests on.

    python -m benchmarks.mutations                     modules whose code or tests have changed since their record
    python -m benchmarks.mutations credit/gae.py       one module

Changes each module one place at a time (operators.py), runs the module's own tests on every change (plan.py), and
counts the changes that a test sees. The records are docs/mutations.jsonl, from which docs/mutations.md is made. Exit
code 1 if fewer than 95 % of the changes are seen, or 90 % of a module's, without those that change nothing
(equivalents.py); 2 if the tests of a module do not pass as it is.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from collections.abc import Sequence

from benchmarks.mutations.equivalents import EQUIVALENT
from benchmarks.mutations.named import NAMED
from benchmarks.mutations.page import (
    LEAST,
    LEAST_OF_A_MODULE,
    PAGE,
    RECORDS,
    Record,
    enough_is_seen,
    read_records,
    seen_share,
    write_page,
)
from benchmarks.mutations.plan import digest, planned
from benchmarks.mutations.trial import try_module


def main(arguments: Sequence[str] | None = None) -> int:
    """Tries the modules asked for, records the results and makes the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("modules", nargs="*", help="below rllib_ragen/; none: those whose code or tests have changed")
    options = parser.parse_args(arguments)
    plan, records = planned(), read_records()
    if unknown := set(options.modules) - plan.keys():
        print(f"no module of the plan: {', '.join(sorted(unknown))}; allowed: {', '.join(plan)}", file=sys.stderr)
        return 2
    outdated = [module for module in plan if module not in records or records[module].digest != digest(module)]
    broken = False
    for module in options.modules or outdated:
        record = _in_a_fork(module, plan[module])
        if record is None:
            broken = True
            continue
        records[module] = record
        records = {name: records[name] for name in plan if name in records}
        RECORDS.write_text("".join(one.to_json() + "\n" for one in records.values()), encoding="utf-8")
        write_page(PAGE, list(records.values()))
        print(f"{module}: {record.seen} of {record.changes} seen, {record.seconds:.0f} s", flush=True)
        for where, change in record.survivors:
            print(f"    not seen: {where}: {change}", flush=True)
    found = list(records.values())
    print(
        f"{seen_share(found):.1%} of the changes are seen; at least {LEAST:.0%} are wanted, and"
        f" {LEAST_OF_A_MODULE:.0%} in each module"
    )
    return 2 if broken else 0 if enough_is_seen(found) else 1


def _in_a_fork(module: str, tests: Sequence[str]) -> Record | None:
    """Tries a module in a child process, because pytest runs once per process → None if its unchanged code fails."""
    if not module.startswith("credit/"):
        # Imported once, not in every fork.
        importlib.import_module("rllib_ragen.learner.learner")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            said = _tried(module, tests).to_json()
        except RuntimeError as error:
            print(error, file=sys.stderr, flush=True)
            os._exit(2)
        with os.fdopen(writing, "w", encoding="utf-8") as pipe:
            pipe.write(said)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return Record(**json.loads(said)) if said else None


def _tried(module: str, tests: Sequence[str]) -> Record:
    trial = try_module(module, tests)
    known = EQUIVALENT.get(module, {})
    found = [mutation.key for mutation in trial.survivors]
    for where, change in known.keys() - set(found):
        print(f"    equivalents.py: {module}, {where}: {change} is no change that survives", file=sys.stderr)
    return Record(
        module=module,
        digest=digest(module),
        tests=trial.tests,
        changes=trial.number,
        endless=trial.endless,
        survivors=[list(key) for key in found if key not in known],
        equivalent=[[*key, known[key]] for key in found if key in known],
        named=[*NAMED.get(module, ())],
        seconds=round(trial.seconds, 1),
    )


if __name__ == "__main__":
    sys.exit(main())
