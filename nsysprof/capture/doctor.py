"""What this machine can do, each by trying it: a range and some kernels under nsys, one counter under ncu."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from nsysprof.capture.find_ncu import find_ncu, ncu_version
from nsysprof.capture.find_nsys import find_nsys, nsys_version
from nsysprof.capture.ncu import probe_counters
from nsysprof.capture.nsys import explain_failure, export_argv, profile_argv
from nsysprof.environment import collect_gpus, driver_cuda_version, read_clocks
from nsysprof.errors import MissingToolError
from nsysprof.units import format_bytes

_TRY_S = 180.0
_LEAST_BYTES = 2 << 30
_LAUNCHES = 7
_PROBE = [sys.executable, "-m", "nsysprof.workload.doctor_probe"]
# Variables that change what is measured, or stand in a profiler's way.
_VARIABLES = {
    "CUDA_LAUNCH_BLOCKING": "every launch waits for the GPU",
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "every tensor is a cudaMalloc",
    "CUDA_INJECTION64_PATH": "another tool is loaded into every CUDA program",
    "NVTX_INJECTION64_PATH": "another tool receives the NVTX ranges",
    "LD_PRELOAD": "a library is loaded into every program",
}


class State(StrEnum):
    """Of one thing that was looked at."""

    OK = "ok"
    WARNING = "warning"  # something works less well, or changes the numbers
    PROBLEM = "problem"  # something asked for does not work
    ABSENT = "absent"  # it is not here, and not everybody needs it


@dataclass(frozen=True)
class Check:
    """found: what was seen. fix: what to do about it, empty when there is nothing to do."""

    name: str
    state: State
    found: str
    fix: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def run_checks(say: Callable[[str], None]) -> list[Check]:
    """Everything, in the order in which one needs it. say: told what is tried next, as some of it takes seconds."""
    say("python, packages, GPUs")
    gpus = collect_gpus()
    checks = [*_packages(), _gpu(gpus), *_clocks(gpus), *_variables(), *_disks()]
    say("torch")
    torch, facts = _torch(bool(gpus))
    usable = bool(facts.get("cuda_available"))
    say("nsys: recording")
    checks += [torch, *_driver(driver_cuda_version(), facts.get("cuda")), *_nsys(usable)]
    say("ncu: reading a counter")
    return [*checks, *_ncu(usable)]


def _packages() -> Iterator[Check]:
    text = f"Python {sys.version_info.major}.{sys.version_info.minor}.{sys.version_info.micro}"
    yield Check("python", State.OK, text)
    for name, needed, fix in (
        ("nvidia-ml-py", "clocks, driver and GPU names", "pip install 'nsysprof[torch]'"),
        ("nvtx", "ranges in captures", "pip install 'nsysprof[torch]'"),
        ("numba", "large traces in seconds", "pip install numba"),
        ("pyarrow", "folders of Parquet", "pip install 'nsysprof[parquet]'"),
    ):
        try:
            yield Check(name, State.OK, version(name))
        except PackageNotFoundError:
            yield Check(name, State.ABSENT, f"not installed; it gives {needed}", fix)


def _gpu(gpus: list[dict[str, Any]]) -> Check:
    if not gpus:
        text = "no NVIDIA GPU or driver that NVML sees; traces can be read, and operators captured on the CPU"
        return Check("gpu", State.ABSENT, text, "Where there should be one, see what nvidia-smi says.")
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = ", ".join(f"{gpu['name']} ({format_bytes(gpu['memory_bytes'])})" for gpu in gpus)
    text = f"{names}; driver {gpus[0]['driver_version']}"
    if visible in ("", "-1"):
        return Check("gpu", State.PROBLEM, f"{text}; CUDA_VISIBLE_DEVICES hides all of them", "Unset it.")
    return Check("gpu", State.OK, text)


def _clocks(gpus: list[dict[str, Any]]) -> Iterator[Check]:
    for gpu in gpus:
        clocks = read_clocks(gpu["uuid"])
        name = f"clocks of gpu {gpu['index']}"
        if clocks is None:
            yield Check(name, State.WARNING, "NVML does not answer; throttling cannot be seen")
            continue
        text = f"SM {clocks['sm_clock_mhz']} MHz, {clocks['temperature_c']} C, {clocks['power_w']} W"
        reasons = [r for r in clocks["throttle_reasons"] if r not in ("gpu_idle", "applications_clocks_setting")]
        if reasons:
            fix = "Wait until it is cool and free, then measure."
            yield Check(name, State.WARNING, f"{text}, throttled: {', '.join(reasons)}", fix)
        else:
            yield Check(name, State.OK, text)


def _variables() -> Iterator[Check]:
    for name, effect in _VARIABLES.items():
        if os.environ.get(name):
            yield Check(name, State.WARNING, f"is set: {effect}", "Unset it before you measure.")


def _disks() -> Iterator[Check]:
    for name, folder in (("disk here", Path.cwd()), ("disk of TMPDIR", Path(tempfile.gettempdir()))):
        try:
            free = shutil.disk_usage(folder).free
        except OSError as error:
            yield Check(name, State.PROBLEM, f"cannot be asked: {error.strerror}", "Choose another folder.")
            continue
        state = State.OK if free >= _LEAST_BYTES else State.WARNING
        fix = "" if state is State.OK else "A capture takes hundreds of MB: free some, or set --out and TMPDIR."
        yield Check(name, state, f"{format_bytes(free)} free", fix)


def _torch(has_gpu: bool) -> tuple[Check, dict[str, Any]]:
    done = _try(_PROBE)
    if done is None or done.returncode != 0:
        said = "it does not end" if done is None else _last_line(done.stderr)
        if "No module named 'torch'" in said:
            return Check("torch", State.ABSENT, "not installed; capture, bench and tune need it",
                         "pip install 'nsysprof[torch]'"), {}  # fmt: skip
        return Check("torch", State.PROBLEM, f"cannot be used: {said}", "Install a torch that fits the driver."), {}
    facts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    text = f"{facts['torch']}, CUDA {facts['cuda']}" if facts["cuda"] else f"{facts['torch']}, without CUDA"
    if has_gpu and not facts["cuda_available"]:
        why = "is built without CUDA" if not facts["cuda"] else "cannot use this GPU"
        fix = "Install a build with CUDA that the driver supports (pytorch.org), and see CUDA_VISIBLE_DEVICES."
        return Check("torch", State.PROBLEM, f"{text}: it {why}", fix), facts
    capability = facts["capability"]
    if capability and facts["architectures"] and not _supports(facts["architectures"], capability):
        fix = "Install a torch that is built for it: kernels are compiled at first use, or fail."
        return Check("torch", State.WARNING, f"{text} has no kernels of {capability}", fix), facts
    return Check("torch", State.OK, text), facts


def _driver(newest: tuple[int, int] | None, built: str | None) -> Iterator[Check]:
    """Whether the driver is new enough for torch's CUDA, and so for the CUPTI that comes with it."""
    if newest is None:
        return
    text = f"supports CUDA up to {newest[0]}.{newest[1]}"
    if not built:
        yield Check("driver", State.OK, text)
        return
    wanted = tuple(int(part) for part in built.split(".")[:2])
    said = f"{text}; torch is built with {built}"
    if newest[0] < wanted[0]:
        fix = "Install a newer driver, or a torch built with an older CUDA."
        yield Check("driver", State.PROBLEM, f"{said}, which needs a newer driver", fix)
    elif newest < wanted:
        fix = "It runs by CUDA's minor-version compatibility; a newer driver has all of CUPTI."
        yield Check("driver", State.WARNING, f"{said}, which is newer", fix)
    else:
        yield Check("driver", State.OK, said)


def _supports(architectures: list[str], capability: str) -> bool:
    """Whether some built architecture runs on this one: the same major version, and none newer."""
    here = int(capability.removeprefix("sm_"))
    built = [int(re.sub(r"\D", "", name)) for name in architectures if name.startswith("sm_")]
    return any(each // 10 == here // 10 and each <= here for each in built)


def _nsys(usable: bool) -> Iterator[Check]:
    try:
        nsys = find_nsys()
    except MissingToolError as error:
        yield Check("nsys", State.PROBLEM, error.text, error.next_step)
        return
    if nsys is None:
        fix = "Install Nsight Systems, or name it with NSYSPROF_NSYS; torch's own profiler works without."
        yield Check("nsys", State.ABSENT, "not found", fix)
        return
    named = nsys_version(nsys)
    if named is None:
        yield Check("nsys", State.PROBLEM, f"{nsys} does not run", "Install it again.")
        return
    yield Check("nsys", State.OK, f"{named} ({nsys})")
    yield _record(nsys, usable)


def _record(nsys: Path, usable: bool) -> Check:
    """One real recording, exported and counted."""
    name = "nsys recording"
    with tempfile.TemporaryDirectory(prefix="nsysprof-") as scratch:
        report, trace = Path(scratch) / "try.nsys-rep", Path(scratch) / "try.sqlite"
        program = [*_PROBE, str(_LAUNCHES)] if usable else [sys.executable, "-c", "pass"]
        for step, argv in (
            ("profile", profile_argv(nsys, report.with_suffix(""), program)),
            ("export", export_argv(nsys, report, trace)),
        ):
            done = _try(argv)
            if done is None:
                return Check(name, State.PROBLEM, f"nsys {step} does not end", "See what else profiles this machine.")
            if done.returncode != 0 or not (report if step == "profile" else trace).exists():
                error = explain_failure(step, done.returncode, done.stdout + done.stderr)
                return Check(name, State.PROBLEM, error.text, error.next_step)
        kernels = _count_kernels(trace)
    if not usable:
        return Check(name, State.OK, "records and exports; no GPU to record here")
    if kernels < _LAUNCHES:
        fix = "This nsys is older than the driver, or another profiler holds CUPTI: use a newer nsys."
        return Check(name, State.PROBLEM, f"lost kernels: {kernels} of at least {_LAUNCHES} were recorded", fix)
    return Check(name, State.OK, f"records and exports; {kernels} kernels of {_LAUNCHES} launches and a fill")


def _count_kernels(trace: Path) -> int:
    try:
        with sqlite3.connect(f"{trace.as_uri()}?mode=ro", uri=True) as database:
            (count,) = database.execute("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()
            return int(count)
    except sqlite3.Error:
        return 0


def _ncu(usable: bool) -> Iterator[Check]:
    try:
        ncu = find_ncu()
    except MissingToolError as error:
        yield Check("ncu", State.PROBLEM, error.text, error.next_step)
        return
    if ncu is None:
        yield Check("ncu", State.ABSENT, "not found", "Install Nsight Compute for hardware counters.")
        return
    named = ncu_version(ncu)
    if named is None:
        yield Check("ncu", State.PROBLEM, f"{ncu} does not run", "Install it again.")
        return
    yield Check("ncu", State.OK, f"{named} ({ncu})")
    if usable:
        yield _count(ncu)


def _count(ncu: Path) -> Check:
    """One hardware counter of one tiny kernel."""
    problem = probe_counters(ncu)
    if problem is None:
        return Check("hardware counters", State.OK, "ncu reads DRAM bytes")
    return Check("hardware counters", State.PROBLEM, *problem)


def _try(argv: list[str]) -> subprocess.CompletedProcess[str] | None:
    """What a program did; None when it does not end."""
    try:
        return subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TRY_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    except OSError as error:
        return subprocess.CompletedProcess(argv, 127, "", f"{argv[0]}: {error.strerror}")


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it said nothing"
