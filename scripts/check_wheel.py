#!/usr/bin/env python3
"""Build the wheel into dist/, and try it in empty environments without a compiler, away from this folder.

    scripts/check_wheel.py                                   with the Python that runs this
    scripts/check_wheel.py --python python3.11 python3.14    with each of these
    scripts/check_wheel.py --wheel FILE                      try a wheel that there is

Each environment holds the wheel and what it needs, with nothing else in PATH: the demo, the pages of `help`, the
compiled parts and the size are checked, then figures with [figures]. Where pipx and uv are installed, they run the
wheel too.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TRACE = ROOT / "traces" / "sdpa.sqlite.xz"
MOST_MB = 250
# What says how packages are found, and nothing of what this machine has.
KEPT = (
    "PIP_",
    "UV_",
    "SSL_",
    "REQUESTS_",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
)
# The compiled parts are in the wheel, and no environment has its start changed by it.
PARTS = """
import importlib, pathlib, sys, sysconfig
from nsysprof.native.load import native_problem
packages = pathlib.Path(sysconfig.get_paths()["purelib"])
importlib.import_module("nsysprof.workload.program_start.attention_calls.fast_calls")
hooks = [path.name for path in packages.glob("*nsysprof*.pth")]
sys.exit(native_problem() or (f"{hooks} run at the start of every Python" if hooks else None))
"""


class Broken(Exception):
    """The wheel does not do what it should."""


def main() -> int:
    """Try the wheel with every Python, and return 1 where it fails with one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", nargs="+", default=[sys.executable], metavar="PYTHON", help="each Python to try")
    parser.add_argument("--wheel", type=Path, help="a wheel, where it is not to be built")
    options = parser.parse_args()
    missing = [python for python in options.python if shutil.which(python) is None]
    if missing:
        parser.error(f"there is no {', '.join(missing)}; name each Python by its command or path")
    failed = 0
    with tempfile.TemporaryDirectory(prefix="check-wheel-", ignore_cleanup_errors=True) as folder:
        wheel = (options.wheel or build(Path(folder))).resolve()
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB", flush=True)
        for number, python in enumerate(options.python):
            failed += not is_fine(python, wheel, Path(folder) / str(number))
    return 1 if failed else 0


def build(scratch: Path) -> Path:
    """Build the wheel with the Python that runs this, and return its path in dist/."""
    made = scratch / "made"
    run([sys.executable, "-m", "venv", str(scratch / "builder")])
    run([str(scratch / "builder/bin/pip"), "wheel", "--quiet", "--no-deps", "--wheel-dir", str(made), str(ROOT)])
    (wheel,) = made.glob("*.whl")
    (ROOT / "dist").mkdir(exist_ok=True)
    return Path(shutil.copy(wheel, ROOT / "dist"))


def is_fine(python: str, wheel: Path, scratch: Path) -> bool:
    """Try the wheel with one Python, say how it went, and return whether it does what it should."""
    scratch.mkdir()
    try:
        version = run([python, "-c", "import platform; print(platform.python_version())"]).strip()
        size = try_installed(python, wheel, scratch)
        tools = try_tools(python, wheel, scratch)
    except Broken as error:
        print(f"{python}: {error}", flush=True)
        return False
    print(f"{version}: works, {size:.0f} MB installed{''.join(f', {tool}' for tool in tools)}", flush=True)
    return True


def try_installed(python: str, wheel: Path, scratch: Path) -> float:
    """Install the wheel, use it, and return how much was installed (MB)."""
    home = scratch / "empty"
    run([python, "-m", "venv", str(home)])
    bare = {**kept(), "PATH": str(home / "bin"), "HOME": str(scratch), "LANG": "C.UTF-8"}
    nsysprof, pip = str(home / "bin/nsysprof"), [str(home / "bin/pip"), "install", "--quiet", "--only-binary=:all:"]
    before = size_of(home)
    run([*pip, "--no-compile", str(wheel)], bare, scratch)
    size = size_of(home) - before
    expect(size <= MOST_MB, f"{size:.0f} MB are installed, more than {MOST_MB} MB")
    run([str(home / "bin/python"), "-c", PARTS], bare, scratch)
    expect("Why the GPU was idle" in run([nsysprof, "help", "causes"], bare, scratch), "it has no pages for help")
    run([nsysprof, "demo", "--out", "demo"], bare, scratch)
    expect((scratch / "demo/report.html").is_file(), "the demo wrote no page")
    expect(not (scratch / "demo/timeline.png").exists(), "matplotlib is there, and should not be")
    run([*pip, f"{wheel}[figures]"], bare, scratch)
    run([nsysprof, "analyze", str(TRACE), "--out", "analysis"], bare, scratch)
    for file in ("report.html", "report.md", "ranges.csv", "timeline.png"):
        expect((scratch / "analysis" / file).is_file(), f"analyze wrote no {file}")
    return size


def try_tools(python: str, wheel: Path, scratch: Path) -> list[str]:
    """Run the wheel as pipx and uv do, where they are installed, and return what was tried."""
    home = scratch / "tools"
    folders = {"PIPX_HOME": "pipx", "PIPX_BIN_DIR": "bin", "UV_TOOL_DIR": "uv", "UV_TOOL_BIN_DIR": "bin"}
    bare = {**os.environ, **{name: str(home / folder) for name, folder in folders.items()}}
    path, tried = shutil.which(python) or python, []
    if pipx := shutil.which("pipx"):
        shown = run([pipx, "run", "--python", path, "--spec", str(wheel), "nsysprof", "--version"], bare, scratch)
        expect("nsysprof" in shown, "pipx run shows no version")
        tried.append("pipx run")
    if uv := shutil.which("uv"):
        run([uv, "tool", "install", "--quiet", "--python", path, str(wheel)], bare, scratch)
        run([str(home / "bin/nsysprof"), "demo", "--out", "of-uv"], bare, scratch)
        tried.append("uv tool install")
    return tried


def kept() -> dict[str, str]:
    """Return the part of the environment that says where packages come from."""
    return {name: value for name, value in os.environ.items() if name.startswith(KEPT)}


def size_of(folder: Path) -> float:
    """Return how much the files below a folder hold (MB)."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink()) / 1e6


def run(command: Sequence[str], environment: dict[str, str] | None = None, folder: Path | None = None) -> str:
    """Run a command and return what it prints. Raises Broken with its last lines where it fails."""
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()[-5:]
        raise Broken(f"{' '.join(command[:2])} ended with {done.returncode}: " + "\n".join(lines))
    return done.stdout


def expect(holds: bool, otherwise: str) -> None:
    """Raise Broken unless it holds."""
    if not holds:
        raise Broken(otherwise)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Broken as error:
        sys.exit(f"scripts/check_wheel.py: {error}")
