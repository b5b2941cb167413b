"""Compile what is written in C, where there is a compiler: the hook of `capture --attention`, and the large loops.

The pages of docs/ come along, for `nsysprof help`.

hatchling calls this when nsysprof is installed or a wheel is made. Without a compiler, or on another system than Linux,
the wheel has no compiled parts. Then the hook works in Python alone, in some four times the time, and numpy and
SQLite do what the loops do.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = Path("nsysprof/workload/program_start/attention_calls")
# Python's limited API of 3.11: one file serves that version and all later ones.
LIMITED_API = "0x030b0000"
COMPILED = "fast_calls.abi3.so"
# The loops on the columns of a trace. They know nothing of Python, and wrap around as Python's fallbacks do.
LOOPS = Path("nsysprof/native/loops.c")
LOOPS_COMPILED = f"loops-{sysconfig.get_platform()}.so"
LOOP_OPTIONS = "-O2 -fPIC -shared -std=c11 -ffreestanding -fwrapv -fno-strict-aliasing"
# Where the pages that `nsysprof help` prints are in a wheel.
PAGES = "nsysprof/app/pages"
# It takes less than a second; an installation must not wait for ever for a compiler that a slow network serves.
LONGEST_S = 120.0


class CompileCode(BuildHookInterface[Any]):
    """Adds the compiled parts to a wheel, or leaves them beside their source for an editable installation."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before the files of the wheel are collected. version: "standard" or "editable"."""
        root = Path(self.root)
        if version == "standard":  # an editable installation reads them in docs/
            build_data["force_include"].update(
                {str(page): f"{PAGES}/{page.name}" for page in sorted((root / "docs").glob("*.md"))}
            )
        loops = root / LOOPS
        parts = (
            ("hook", FOLDER / COMPILED, compile_fast_calls(root / FOLDER)),
            ("loops", LOOPS.with_name(LOOPS_COMPILED), compile_loops(loops)),
        )
        for part, target, problem in parts:
            if problem:
                self.app.display_warning(f"nsysprof's {part} is not compiled: {problem}")
                continue
            build_data["artifacts"].append(f"/{target.as_posix()}")
            if version == "standard":
                build_data["pure_python"] = False
                build_data["tag"] = f"cp311-abi3-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"


def compile_fast_calls(folder: Path) -> str:
    """Compile fast_calls.c in its folder. Return why that was not possible; empty if it was."""
    problem = _remove(folder / COMPILED)
    if problem:
        return problem
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "it needs a Python with its global lock"
    options = ["-O2", "-fPIC", "-shared", "-std=c11", "-D_GNU_SOURCE", f"-DPy_LIMITED_API={LIMITED_API}"]
    return _compile(folder / "fast_calls.c", [*options, f"-I{sysconfig.get_paths()['include']}"], COMPILED)


def compile_loops(source: Path) -> str:
    """Compile loops.c beside it. Return why that was not possible; empty if it was."""
    return _remove(source.with_name(LOOPS_COMPILED)) or _compile(source, LOOP_OPTIONS.split(), LOOPS_COMPILED)


def _remove(path: Path) -> str:
    """Remove what was compiled of an older source. Return why that was not possible; empty if it was."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        return f"{path.name}: {error.strerror}"
    return ""


def _compile(source: Path, options: list[str], name: str) -> str:
    """Compile a file into one of that name beside it. Return why that was not possible; empty if it was."""
    if not sys.platform.startswith("linux"):
        return "it needs Linux"
    try:
        compiler = shlex.split(os.environ.get("CC", "")) or ["cc"]
    except ValueError as error:
        return f"CC: {error}"
    # Not in the folder, whose files would be in the wheel if this were stopped.
    with tempfile.TemporaryDirectory() as made:
        problem = _run([*compiler, *options, source.name, "-o", str(Path(made) / name)], source.parent)
        if problem:
            return problem
        try:
            whole = source.with_name(f"{name}.part")
            shutil.copy(Path(made) / name, whole)
            whole.replace(source.with_name(name))  # a program may have loaded the one that was there
        except OSError as error:
            return f"{source.parent}: {error.strerror}"
    return ""


def _run(command: list[str], folder: Path) -> str:
    """Run a compiler in a folder. Return what went wrong; empty if nothing did."""
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, encoding="utf-8", errors="replace", timeout=LONGEST_S, check=False
        )
    except OSError as error:
        return f"{command[0]}: {error.strerror}"
    except subprocess.TimeoutExpired:
        return f"{command[0]} took more than {LONGEST_S:.0f} s"
    if done.returncode:
        return (done.stderr.strip().splitlines() or [f"{command[0]} failed"])[0]
    return ""
