"""Define the options of commands that are no part of a request."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

from nsysprof.app.inputs.option import Option
from nsysprof.app.inputs.options import OUTPUT

DryRun = Annotated[bool, Option("Print the plan and stop.", ("--dry-run",), OUTPUT)]
Json = Annotated[bool, Option("Print JSON on stdout.", ("--json",), OUTPUT)]

Links = Annotated[
    bool, Option("Measure for two seconds what the links between GPUs, and to the host, carry.", ("--links",))
]


def command_line() -> str:
    """Return the command line that the user typed. Paths are reduced to their last part, because reports are shared."""
    arguments = [f"{argument[: argument.find('=') + 1]}{Path(argument).name}" if "/" in argument else argument
                 for argument in sys.argv[1:]]  # fmt: skip
    return shlex.join(["nsysprof", *arguments])
