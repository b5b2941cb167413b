"""The command line: one file a command, and the one place that turns an error into stderr text and an exit code."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

import typer

from nsysprof import __version__
from nsysprof.cli import analyze, bench, bundle, capture, compare, doctor, explain, export, tune
from nsysprof.errors import NsysprofError

_INTERNAL_ERROR = 70  # EX_SOFTWARE

app = typer.Typer(
    name="nsysprof",
    help="Evidence about attention backends and CUDA programs from Nsight Systems traces.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# What follows the program's name is the program's, options too.
app.command("capture", context_settings={"allow_interspersed_args": False})(capture.capture)
app.command("analyze")(analyze.analyze)
app.command("bench")(bench.bench)
app.command("explain")(explain.explain)
app.command("export")(export.export)
app.command("tune")(tune.tune)
app.command("bundle")(bundle.bundle)
app.command("doctor")(doctor.doctor)
app.command("compare")(compare.compare)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"nsysprof {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    """Evidence about attention backends and CUDA programs from Nsight Systems traces."""


def main() -> None:
    """Run the command; every failure ends in one clear line with the next step and its own exit code."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        app()
    except NsysprofError as error:
        _complain(error.text, error.next_step)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        _complain("Interrupted.", "")
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except Exception as error:
        if os.environ.get("NSYSPROF_DEBUG"):
            raise
        _complain(
            f"Unexpected {type(error).__name__}: {error}",
            "This is a fault of nsysprof. NSYSPROF_DEBUG=1 shows where; please report it.",
        )
        sys.exit(_INTERNAL_ERROR)


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _complain(text: str, next_step: str) -> None:
    typer.echo(f"nsysprof: {text}", err=True)
    if next_step:
        typer.echo(f"  -> {next_step}", err=True)
