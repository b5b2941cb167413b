"""Every room of the package stays within its budget, which only falls."""

from __future__ import annotations

from dataclasses import replace

from scripts import budgets
from scripts.budgets import Room


def test_every_room_is_within_its_budget() -> None:
    assert list(budgets.find_faults(budgets.count_rooms(), budgets.read_budgets())) == []


def test_growth_and_a_stale_budget_are_noticed() -> None:
    room = Room(lines=1000, files=10, imports=100, late_imports=0, c_lines=0)
    assert list(budgets.find_faults({"a": replace(room, lines=1020)}, {"a": room})) == []
    assert "lines grew from 1,000 to 1,021" in next(budgets.find_faults({"a": replace(room, lines=1021)}, {"a": room}))
    assert "late_imports grew" in next(budgets.find_faults({"a": replace(room, late_imports=1)}, {"a": room}))
    assert "files fell from 10 to 9" in next(budgets.find_faults({"a": replace(room, files=9)}, {"a": room}))
    assert "other rooms" in next(budgets.find_faults({"b": room}, {"a": room}))
