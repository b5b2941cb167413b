"""A stand-in for nsys that loses what a test tells it to lose: no machine without a GPU can cause these losses.

It runs the program as nsys does, and its export is a trace that the test chose by the options of the recording.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

_PROGRAM = """\
#!{python}
import json, re, shutil, subprocess, sys
arguments = sys.argv[1:]
if arguments[0] == "--version":
    print("NVIDIA Nsight Systems version 2025.3.1.90-253135822126v0")
elif arguments[0] == "profile" and "--help" in arguments:
    print({help!r})
elif arguments[0] == "profile" and arguments[1].endswith("=help"):
    print("0: NVIDIA H200")
elif arguments[0] == "profile":
    program = next(i for i, word in enumerate(arguments[1:], 1) if not word.startswith("--"))
    options = arguments[1:program]
    output = next(word for word in options if word.startswith("--output=")).partition("=")[2].replace("%%", "%")
    code = subprocess.call(arguments[program:])
    line = " ".join(word for word in options if not word.startswith("--output"))
    with open({calls!r}, "a") as file:
        file.write(line + chr(10))
    chosen = next(trace for pattern, trace in json.loads({choices!r}) if re.search(pattern, line))
    if chosen:
        with open(output + ".nsys-rep", "w") as file:
            file.write(chosen)
    sys.exit(code)
elif arguments[0] == "export":
    output = next(word for word in arguments if word.startswith("--output=")).partition("=")[2]
    shutil.copyfile(open(arguments[-1]).read(), output)
"""


def write_stand_in(folder: Path, choices: Sequence[tuple[str, Path | None]], *, help_text: str = "") -> Path:
    """Write the stand-in and return it; `folder/calls` will hold the options of each recording.

    choices: a pattern for the options of a recording, and the trace that it gives (None: no report). The first that
        fits counts.
    """
    folder.mkdir(exist_ok=True)
    path = folder / "nsys"
    text = _PROGRAM.format(
        python=sys.executable,
        help=help_text,
        calls=os.fspath(folder / "calls"),
        choices=json.dumps([(pattern, trace and os.fspath(trace)) for pattern, trace in choices]),
    )
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def recorded_options(folder: Path) -> list[str]:
    """Return the options of each recording that the stand-in in this folder made."""
    path = folder / "calls"
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []
