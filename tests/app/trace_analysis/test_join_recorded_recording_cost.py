"""What recording cost is shared with the names that the shared trace has."""

from __future__ import annotations

from pathlib import Path

import pytest

from nsysprof.app.trace_analysis.join_recorded import costs_to_share
from nsysprof.bundle.name_tokens import NameTokens
from nsysprof.capture.manifest import RANGES_ALONE
from nsysprof.results.analysis import RecordingCosts
from tests.builders.build_trace import TraceBuilder


def write(path: Path, names: str, wall: int) -> Path:
    """Write a trace with twelve instances of a counted range, one of them the warm-up."""
    builder = TraceBuilder()
    for number in range(12):
        builder.range(100_000 * number, 100_000 * number + 10 * wall + number, names.replace("#", str(number)))
    return builder.write(path)


@pytest.fixture
def share(tmp_path: Path):
    def share(names: str, *, keep: bool = False) -> RecordingCosts | None:
        trace = write(tmp_path / "nsys.sqlite", names, 800)
        write(tmp_path / RANGES_ALONE, names, 400)
        return costs_to_share(tmp_path, trace, NameTokens(keep=keep).keeps_range)

    return share


def test_a_run_of_its_own_is_shared_as_costs(share) -> None:
    shared = share("step#")
    assert shared is not None
    assert not shared.in_one_run
    (cost,) = shared.costs
    assert (cost.range, cost.is_distorted) == ("step#", True)


@pytest.mark.parametrize("keep", [True, False])
def test_a_family_whose_names_become_tokens_is_shared_name_by_name(share, keep: bool) -> None:
    shared = share("my training #", keep=keep)
    assert shared is not None
    names = ["my training #"] if keep else [f"my training {number}" for number in range(12)]
    assert [cost.range for cost in shared.costs] == names
    assert len({cost.slowdown for cost in shared.costs}) == 1


def test_nothing_is_shared_where_nothing_was_measured(tmp_path: Path) -> None:
    assert costs_to_share(tmp_path, write(tmp_path / "nsys.sqlite", "step#", 800), lambda _name: True) is None
