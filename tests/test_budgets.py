"""Every room of the package stays within its budget, which only falls."""

from __future__ import annotations

import subprocess
from dataclasses import replace

import pytest

from scripts import budgets
from scripts.budgets import Room
from tests.conftest import REPOSITORY

MOST_BYTES = 29_800_000


def test_every_room_is_within_its_budget() -> None:
    assert list(budgets.find_faults(budgets.count_rooms(), budgets.read_budgets())) == []


def test_growth_and_a_stale_budget_are_noticed() -> None:
    room = Room(lines=1000, files=10, imports=100, late_imports=0, c_lines=0)
    assert list(budgets.find_faults({"a": replace(room, lines=1020)}, {"a": room})) == []
    assert "lines grew from 1,000 to 1,021" in next(budgets.find_faults({"a": replace(room, lines=1021)}, {"a": room}))
    assert "late_imports grew" in next(budgets.find_faults({"a": replace(room, late_imports=1)}, {"a": room}))
    assert "files fell from 10 to 9" in next(budgets.find_faults({"a": replace(room, files=9)}, {"a": room}))
    assert "other rooms" in next(budgets.find_faults({"b": room}, {"a": room}))


def test_a_clone_stays_light() -> None:
    """Whoever adds a sample takes another away that can be recorded again: every reader pays for all of them."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("this is no clone")
    files = [path for name in listed.stdout.split("\0") if name and (path := REPOSITORY / name).is_file()]
    assert sum(path.stat().st_size for path in files) <= MOST_BYTES
