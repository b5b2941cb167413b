"""Compile the part of the hook of `capture --attention` that is written in C, where there is a compiler.

hatchling calls this when nsysprof is installed or a wheel is made. Without a compiler, or on another system than Linux,
the wheel has no compiled part, and the hook works in Python alone, in some four times the time.
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
# It takes less than a second; an installation must not wait for ever for a compiler that a slow network serves.
LONGEST_S = 120.0


class CompileFastCalls(BuildHookInterface[Any]):
    """Adds the compiled module to a wheel, or leaves it beside its source for an editable installation."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before the files of the wheel are collected. version: "standard" or "editable"."""
        target = FOLDER / COMPILED
        problem = compile_fast_calls(Path(self.root) / FOLDER)
        if problem:
            self.app.display_warning(f"nsysprof's hook is not compiled: {problem}")
            return
        build_data["artifacts"].append(f"/{target.as_posix()}")
        if version == "standard":
            build_data["pure_python"] = False
            build_data["tag"] = f"cp311-abi3-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"


def compile_fast_calls(folder: Path) -> str:
    """Compile fast_calls.c in its folder. Return why that was not possible; empty if it was."""
    try:
        (folder / COMPILED).unlink(missing_ok=True)  # of an older source
    except OSError as error:
        return f"{COMPILED}: {error.strerror}"
    if not sys.platform.startswith("linux") or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "it needs Linux and a Python with its global lock"
    try:
        compiler = shlex.split(os.environ.get("CC", "")) or ["cc"]
    except ValueError as error:
        return f"CC: {error}"
    options = ["-O2", "-fPIC", "-shared", "-std=c11", "-D_GNU_SOURCE", f"-DPy_LIMITED_API={LIMITED_API}"]
    command = [*compiler, *options, f"-I{sysconfig.get_paths()['include']}", "fast_calls.c", "-o"]
    # Not in the folder, whose files would be in the wheel if this were stopped.
    with tempfile.TemporaryDirectory() as made:
        problem = _run([*command, str(Path(made) / COMPILED)], folder)
        if problem:
            return problem
        try:
            whole = folder / f"{COMPILED}.part"
            shutil.copy(Path(made) / COMPILED, whole)
            whole.replace(folder / COMPILED)  # a program may have loaded the one that was there
        except OSError as error:
            return f"{folder}: {error.strerror}"
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
