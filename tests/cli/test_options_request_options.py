"""A command whose parameters are requests becomes one with the options of their fields."""

from dataclasses import dataclass, field
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from nsysprof.app.inputs.options import SIZES, WORDS, Option
from nsysprof.cli.options import with_options
from nsysprof.errors import UsageError


@dataclass(frozen=True)
class Shapes:
    seqs: Annotated[tuple[int, ...], Option("Lengths.", ("--seq",), form=SIZES)] = (16,)


@dataclass(frozen=True)
class GridRequest:
    grid: Shapes = field(default_factory=lambda: Shapes((1, 2)))
    wait_s: Annotated[float, Option("Time.", ("--wait",))] = 1.0
    batch: Annotated[str, Option("A batch.", excludes=("--seq",))] = ""
    command: str = "unset"


@dataclass(frozen=True)
class RunProgram:
    argv: Annotated[tuple[str, ...], Option("The program.", form=WORDS, is_argument=True)]
    timeout_s: Annotated[float, Option("Time.", ("--wait",))] = 60.0
    steps: Annotated[int, Option("Steps.")] = 0


def run(*words):
    """Return what the command got, or its error."""
    got = []

    def command(
        request: GridRequest | RunProgram, as_json: Annotated[bool, Option("JSON.", ("--json",))] = False
    ) -> None:
        got.append((request, as_json))

    app = typer.Typer()
    app.command()(with_options(command))
    result = CliRunner().invoke(app, list(words), standalone_mode=False)
    if result.exception:
        raise result.exception
    return got[0]


def test_what_is_not_typed_keeps_the_default_of_its_request():
    assert run() == (GridRequest(), False)
    assert run("--seq", "8", "--json") == (GridRequest(grid=Shapes((8,))), True)


def test_options_that_exclude_each_other():
    assert run("--batch", "q8")[0].batch == "q8"
    with pytest.raises(UsageError, match="--batch and --seq exclude each other"):
        run("--batch", "q8", "--seq", "8")


def test_a_program_chooses_the_second_request_but_the_shown_default_counts():
    assert run("true", "--steps", "2") == (RunProgram(("true",), 1.0, 2), False)
    assert run("true", "--wait", "60")[0].timeout_s == 60.0


def test_an_option_of_the_other_request_is_refused():
    with pytest.raises(UsageError, match="--seq is an option of the grid"):
        run("true", "--seq", "8")
    with pytest.raises(UsageError, match="--steps needs a program"):
        run("--steps", "8")
