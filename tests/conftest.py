"""Fixtures that many tests share: a real nsys, real traces, a terminal that is the same everywhere."""

from __future__ import annotations

import gc
import lzma
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

REPOSITORY = Path(__file__).parents[1]
_SHOWN_OF_A_RERUN = 6_000
# Tests share the cores: several threads of torch in each would wait for one another, at three times the processor time.
# Set before torch is loaded, and for the processes that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A busy machine is no reason for a property not to hold. A quick run has the same examples each time, so that a change
# is judged by what it changes; the slow one looks at new examples.
settings.register_profile("quick", deadline=None, derandomize=True, max_examples=30)
settings.register_profile("slow", deadline=None)
settings.load_profile("slow" if os.environ.get("SLOW") == "1" else "quick")


def pytest_collection_finish() -> None:
    """Look for garbage more seldom, and not among what was loaded: a third of the time of many tests goes there."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 columns and no colour, so that expected texts hold on every machine."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.delenv("FORCE_COLOR", raising=False)


@pytest.fixture(autouse=True)
def one_nsys_at_a_time(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let tests of other processes wait: nsys 2024.2 sometimes fails or records nothing when two run at once."""
    if "nsys" not in request.fixturenames and not request.node.get_closest_marker("nsys"):
        yield
        return
    import fcntl

    with (Path(tempfile.gettempdir()) / "nsysprof-tests-nsys.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def nsys() -> Path:
    """Return a real Nsight Systems: NSYSPROF_NSYS, else .nsys/ here, else PATH; skip the test without one."""
    asked = os.environ.get("NSYSPROF_NSYS")
    candidates = [asked] if asked else [str(REPOSITORY / ".nsys/bin/nsys"), shutil.which("nsys")]
    for candidate in candidates:
        if candidate and _answers(candidate):
            return Path(candidate)
    if asked:
        pytest.fail(f"NSYSPROF_NSYS names {asked}, which does not answer --version")
    pytest.skip("no Nsight Systems here: scripts/install_nsys.py .nsys installs one")


def _answers(program: str) -> bool:
    try:
        done = subprocess.run([program, "--version"], capture_output=True, timeout=60, check=False)
    except OSError:
        return False
    return done.returncode == 0


@pytest.fixture(scope="session")
def trace_path(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """`trace_path("sdpa")`: traces/sdpa.sqlite.xz, decompressed once a session. Do not write to it."""
    folder = tmp_path_factory.mktemp("traces")

    def decompress(name: str) -> Path:
        target = folder / f"{name}.sqlite"
        if not target.exists():
            packed = (REPOSITORY / "traces" / f"{name}.sqlite.xz").read_bytes()
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(lzma.decompress(packed))
            target.chmod(0o444)
        return target

    return decompress


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print why a test failed that passed when it was tried again: its next failure may be weeks away."""
    for report in terminalreporter.stats.get("rerun", []):
        terminalreporter.section(f"failed at first: {report.nodeid}")
        terminalreporter.write_line(str(report.longrepr)[-_SHOWN_OF_A_RERUN:])
