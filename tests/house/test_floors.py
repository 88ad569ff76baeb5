"""The floor plan: no import goes up, none goes round, and the drawing shows what is imported."""

from __future__ import annotations

import pytest

from benchmarks.floor_plan import FLOOR_OF, FLOORS, PAGE, imports, room_imports, room_of, shortest, with_drawing

IMPORTS = imports()


def test_every_room_has_a_floor_and_the_root_is_small() -> None:
    assert {room_of(module) for module in IMPORTS} == set(FLOOR_OF)
    assert len(FLOOR_OF) <= 16


@pytest.mark.parametrize("room", FLOOR_OF)
def test_no_import_goes_up(room: str) -> None:
    upwards = [
        f"{module} imports {used}"
        for module, uses in IMPORTS.items()
        if room_of(module) == room
        for used in uses
        if used != "rllib_ragen" and room_of(used) != room and FLOOR_OF[room_of(used)] >= FLOOR_OF[room]
    ]
    assert upwards == []


def test_no_import_goes_round() -> None:
    open_modules = dict(IMPORTS)
    while leaves := [module for module, uses in open_modules.items() if not uses & open_modules.keys()]:
        for module in leaves:
            del open_modules[module]
    assert sorted(open_modules) == []


def test_the_drawing_is_current() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_drawing(page), "python -m benchmarks.floor_plan"
    table = page.split("| room |")[1].split("\n\n")[0]
    assert [room for rooms in FLOORS for room in rooms if f"`{room}`" not in table] == []


def test_an_arrow_that_follows_from_others_is_left_out_and_no_other() -> None:
    assert shortest({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == {"a": {"b"}, "b": {"c"}, "c": set()}
    drawn, real = shortest(room_imports()), room_imports()
    assert all(drawn[room] <= real[room] for room in real)
    assert "rollout" in real["learner"] or "models" in drawn["learner"]
