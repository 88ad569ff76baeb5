"""Mutation runs: what is changed, that a change takes effect and is seen, and that the page says what was recorded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.mutations.graft import graft
from benchmarks.mutations.named import NAMED, WHERE, named_mutations
from benchmarks.mutations.operators import mutations
from benchmarks.mutations.page import PAGE, Record, enough_is_seen, read_records, write_page
from benchmarks.mutations.plan import TOP, planned


def changes(source: str) -> list[str]:
    return [f"{mutation.where}: {mutation.change}" for mutation in mutations(source, "example.py")]


def test_every_kind_of_change_is_made() -> None:
    assert changes("def f(a, b):\n    return a + 2 * b") == [
        "f: return a + 2 * b → return None",
        *("f: a + 2 * b → a - 2 * b", "f: a + 2 * b → a", "f: a + 2 * b → 2 * b"),
        *("f: 2 * b → 2 / b", "f: 2 * b → 2", "f: 2 * b → b"),
        *("f: 2 → 3", "f: 2 → 1"),
    ]
    assert changes("class C:\n    def m(self):\n        self.x = -1\n        if not self.y:\n            raise E") == [
        *("C.m: self.x = -1 → (nothing)", "C.m: -1 → 1", "C.m: 1 → 2", "C.m: 1 → 0"),
        *("C.m: not self.y → self.y", "C.m: not self.y → False", "C.m: raise E → (nothing)"),
    ]
    assert changes("t = [x for x in y if x < 1 and g(x)]")[:3] == [
        "module: x < 1 and g(x) → x < 1 or g(x)",
        "module: x < 1 and g(x) → g(x)",
        "module: x < 1 and g(x) → x < 1",
    ]
    assert changes("v = min(a.clamp(max=b), s[:n])") == [
        *("module: min(a.clamp(max=b), s[:n]) → max(a.clamp(max=b), s[:n])",),
        *("module: min(a.clamp(max=b), s[:n]) → a.clamp(max=b)", "module: min(a.clamp(max=b), s[:n]) → s[:n]"),
        *("module: a.clamp(max=b) → the same without max", "module: a.clamp(max=b) → a", "module: n → None"),
    ]


def test_the_same_change_in_two_places_has_two_names_and_texts_stay() -> None:
    assert changes('"""1."""\nx: list[int] = [f"{1}", "a", 1, 1]\nassert 1') == [
        *("module: 1 → 2", "module: 1 → 0", "module: 1 → 2 #2", "module: 1 → 0 #2"),
    ]
    assert changes("if TYPE_CHECKING:\n    import a\nelse:\n    x = -1") == []
    assert changes("T = TypeVar('T', bound=A)\nX: TypeAlias = A | B") == []


SOURCE = """
from functools import lru_cache
LIMIT = 3
UNTOUCHED = object()
TABLE = {"double": lambda x: 2 * x}
def limited(x, most=LIMIT): return min(x, most)
@lru_cache
def cached(x): return limited(x + 1)
class Base:
    def __init__(self): self.based = True
class Derived(Base):
    def __init__(self): super().__init__(); self.own = True
class Counter:
    step = 1
    @property
    def limit(self): return LIMIT
    @classmethod
    def of(cls, x): return cls.step * TABLE["double"](limited(x))
"""


@pytest.mark.parametrize(
    ("where", "change", "expression", "before", "after"),
    [
        ("module", "3 → 4", "(limited(9), Counter().limit)", (3, 3), (4, 4)),
        ("limited", "min(x, most) → max(x, most)", "(limited(9), cached(1))", (3, 2), (9, 3)),
        ("cached", "x + 1 → x - 1", "cached(2)", 3, 1),
        ("module", "2 * x → x", "Counter.of(2)", 4, 2),
        ("Counter", "1 → 2", "Counter.of(1)", 2, 4),
        ("Counter.limit", "return LIMIT → return None", "counter.limit", 3, None),
        ("Derived.__init__", "super().__init__() → (nothing)", "hasattr(Derived(), 'based')", True, False),
    ],
)
def test_a_change_takes_effect_on_what_others_have_imported(
    where: str, change: str, expression: str, before: object, after: object
) -> None:
    module = ModuleType("example")
    module.__file__ = "example.py"
    exec(SOURCE, vars(module))
    imported = {name: vars(module)[name] for name in ("limited", "cached", "Counter", "Derived")}
    found: dict[str, object] = {**imported, "counter": module.Counter()}
    exec(f"value = {expression}", found)
    assert found["value"] == before
    module.cached.cache_clear()
    (mutation,) = [one for one in mutations(SOURCE, "example.py") if one.key == (where, change)]
    graft(module, mutation.code, mutation.names)
    exec(f"value = {expression}", found)
    assert found["value"] == after


def test_what_a_change_does_not_touch_stays_one_thing() -> None:
    module = ModuleType("example")
    module.__file__ = "example.py"
    exec(SOURCE, vars(module))
    before = module.UNTOUCHED
    for mutation in mutations(SOURCE, "example.py"):
        graft(module, mutation.code, mutation.names)
    assert module.UNTOUCHED is before


@pytest.mark.parametrize(("tests", "seen"), [("credit/test_overlong.py", "all"), ("credit/test_rae.py", "none")])
def test_a_modules_own_tests_see_its_changes_and_anothers_do_not(tests: str, seen: str) -> None:
    code = (
        "from benchmarks.mutations.trial import try_module\n"
        f"trial = try_module('credit/overlong.py', [{tests!r}])\n"
        "print(trial.tests > 2, trial.number > 20, len(trial.survivors) / trial.number)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=TOP)
    assert done.stdout.split() == ["True", "True", "0.0" if seen == "all" else "1.0"], done.stderr


def test_the_plan_names_tests_that_are_there() -> None:
    for module, tests in planned().items():
        assert (TOP / "rllib_ragen" / module).is_file() and tests
        assert all((TOP / "tests" / name).is_file() for name in tests), module


def test_the_page_shows_exactly_the_records_and_enough_is_seen(tmp_path: Path) -> None:
    records = list(read_records().values())
    copy = tmp_path / "page.md"
    copy.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    write_page(copy, records)
    assert copy.read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8")
    assert enough_is_seen(records)


def record(changes: int, survivors: int, equivalent: int = 0) -> Record:
    return Record(
        "m.py", "", 1, changes, 0, [["f", "a → b"]] * survivors, [["f", "b → c", "why"]] * equivalent, [], 1.0
    )


@pytest.mark.parametrize(
    ("found", "enough"),
    [
        ([record(100, 5)], True),
        ([record(100, 6)], False),
        ([record(1000, 0), record(10, 1)], True),
        ([record(1000, 0), record(10, 2)], False),  # too few of one module's
        ([record(10, 1, equivalent=1), record(1000, 0)], False),  # 8 of 9
    ],
)
def test_enough_is_seen_of_all_changes_and_of_each_modules(found: list[Record], enough: bool) -> None:
    assert enough_is_seen(found) is enough


def test_every_module_of_the_plan_has_a_record() -> None:
    assert [*read_records()] == [*planned()]


def test_a_wrong_program_by_name_is_a_change_of_the_code_as_it_is() -> None:
    for module in NAMED:
        path = TOP / "rllib_ragen" / module
        found = list(named_mutations(module, path.read_text(encoding="utf-8"), str(path)))
        assert [one.key for one in found] == [(WHERE, name) for name in NAMED[module]]
        assert all(one.names for one in found) and read_records()[module].named == [*NAMED[module]]
    with pytest.raises(ValueError, match="is there 0 times"):
        list(named_mutations("learner/losses/value.py", "x = 1", "value.py"))


def test_a_wrong_program_by_name_takes_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    source = (TOP / "rllib_ragen" / "rollout" / "specs.py").read_text(encoding="utf-8")
    twin = ModuleType("twin")
    twin.__file__ = "twin.py"
    monkeypatch.setitem(sys.modules, "twin", twin)
    exec(source, vars(twin))
    assert len({spec.sampling_seed for spec in twin.training_specs(0, 0, 2, 4)}) == 8
    mutation = next(named_mutations("rollout/specs.py", source, "twin.py"))
    graft(twin, mutation.code, mutation.names)
    assert len({spec.sampling_seed for spec in twin.training_specs(0, 0, 2, 4)}) == 2
