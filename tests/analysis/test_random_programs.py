"""Whole traces made at random, whose truth is known: every figure, every law, and the second opinion."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from nsysprof.native import load as native
from tests.builders.random_program import Program, programs
from tests.second_opinion.compared import compare_figures, laws_broken
from tests.second_opinion.figures import figures_of
from tests.test_scripts import load

WRITTEN = load("oracle").written_files


def check(program: Program) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = program.write(Path(folder) / "t.sqlite")
        files = WRITTEN(path)
        truth = compare_figures(files, program.figures())
        assert truth.differences == []
        assert truth.cells > 20
        assert laws_broken(files) == []
        assert compare_figures(files, figures_of(path)).differences == []


QUICK = settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@QUICK
@given(programs(), st.booleans())
def test_every_figure_is_what_the_program_did(program: Program, compiles: bool) -> None:
    """compiles: whether compiled code is used."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "is_wanted", lambda _unit: compiles)
        check(program)


@pytest.mark.slow
@settings(QUICK, max_examples=200, derandomize=False, phases=[Phase.generate, Phase.shrink])
@given(programs())
def test_every_figure_of_many_programs(program: Program) -> None:
    check(program)
