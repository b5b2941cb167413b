"""The command lines of ncu, what its failures mean, and one tiny kernel that tells whether counters can be had."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from nsysprof.counters import Run, metrics_of
from nsysprof.errors import TraceError
from nsysprof.ncu_csv import NcuPage, parse_ncu_csv

ADMIN_ONLY = (
    "options nvidia NVreg_RestrictProfilingToAdminUsers=0 in /etc/modprobe.d and a reboot, or CAP_SYS_ADMIN, or root"
)
_PROBE_METRIC = "dram__bytes_read.sum"
_PROBE = [sys.executable, "-m", "nsysprof.workload.doctor_probe", "7"]
_PROBE_S = 180.0
_IMPORT_S = 600.0
# Every option whose default differs between versions, or changes what is counted, is given.
_OPTIONS = ("--target-processes", "all", "--clock-control", "none", "--force-overwrite", "--nvtx")
# Sections of source code want the machine code; without them it is all that makes a report large (60 MB of torch's).
_WITHOUT_CODE = ("--import-source", "no", "--import-sass", "no")
_IN_OUR_RANGES = "regex:RUN::.*"
_MEANINGS = (
    (r"ERR_NVGPUCTRPERM", "the driver does not permit reading hardware counters (ERR_NVGPUCTRPERM)", ADMIN_ONLY),
    (
        r"driver resource was unavailable|ERR_NVGPUCTRBUSY|another profiler|Profiler .* already in use",
        "another profiler holds the hardware counters",
        "Stop it: DCGM with dcgmi profile --pause, or another nsys or ncu.",
    ),
    (
        r"[Cc]uda driver is not compatible|driver version is insufficient|unsupported .*driver|not supported on this",
        "this ncu does not fit the driver or the GPU",
        "Use an ncu that is as new as the driver (--ncu).",
    ),
    (
        r"unexpected incompatibility|newer version|created with a different version",
        "the report is of another ncu version, or damaged",
        "Read it with the ncu that wrote it (--ncu).",
    ),
    (r"File is too small|not a valid report", "the file is no report of ncu", "Give a .ncu-rep or a .csv of ncu."),
    (r"[Nn]o space left on device", "ncu ran out of disk space", "Free some, or set --out and TMPDIR."),
    (r"No kernels were profiled", "ncu saw no kernel inside the ranges", "See the log of the pass."),
)


def count_argv(
    ncu: Path,
    report: Path,
    run: Run,
    program: Sequence[str],
    *,
    more_metrics: Sequence[str] = (),
    sections: Sequence[str] = (),
    replay: str = "kernel",
    most: int | None = None,
) -> list[str]:
    """`ncu` around `program`, which counts every launch inside a range of ours into `report`.

    The traffic run leaves caches as they are; the detail run replays each launch from cold ones. most: launches.
    """
    metrics = [*metrics_of(run), *(more_metrics if run is Run.DETAIL else ())]
    argv = [str(ncu), *_OPTIONS, "--nvtx-include", _IN_OUR_RANGES, "--metrics", ",".join(metrics)]
    argv += ["--cache-control", "none" if run is Run.TRAFFIC else "all"]
    if run is Run.DETAIL:
        argv += ["--replay-mode", replay]
        for section in sections:
            argv += ["--section", section]
    argv += () if sections else _known_options(ncu)
    if most is not None:
        argv += ["--launch-count", str(most)]
    return [*argv, "--export", str(report), *program]


@cache
def _known_options(ncu: Path) -> tuple[str, ...]:
    """Those of _WITHOUT_CODE that this ncu knows."""
    try:
        done = subprocess.run([str(ncu), "--help"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    pairs = zip(_WITHOUT_CODE[::2], _WITHOUT_CODE[1::2], strict=True)
    return tuple(word for option, value in pairs if option in done.stdout for word in (option, value))


def read_report(ncu: Path, report: Path, names: str) -> NcuPage:
    """The launches of a report; names: "demangled" or "mangled". Raises TraceError with what ncu says."""
    argv = [str(ncu), "--import", str(report), "--csv", "--page", "raw", "--print-units", "base", "--print-fp"]
    argv += ["--print-kernel-base", names]
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_IMPORT_S,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TraceError(f"{ncu} cannot read {report.name}: {error}.", "Name another ncu with --ncu.") from error
    if done.returncode != 0 or '"ID"' not in done.stdout:
        why, fix = explain_counters(done.stdout + done.stderr)
        raise TraceError(f"{report.name} cannot be read: {why}.", fix)
    return parse_ncu_csv(done.stdout)


def probe_counters(ncu: Path) -> tuple[str, str] | None:
    """Why hardware counters cannot be had here, and what to do about it; None when one tiny kernel gave one."""
    options = ["--metrics", _PROBE_METRIC, "--launch-count", "1", "--clock-control", "none", "--csv"]
    try:
        done = subprocess.run(
            [str(ncu), *options, *_PROBE],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PROBE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "ncu does not end", "See whether DCGM or another profiler holds the counters."
    except OSError as error:
        return f"{ncu} does not run: {error.strerror}", "Install Nsight Compute again, or name another with --ncu."
    said = done.stdout + done.stderr
    if _PROBE_METRIC in done.stdout and "ERR_NVGPUCTRPERM" not in said:
        return None
    why, fix = explain_counters(said)
    return why + _restricted(why), fix


def explain_counters(said: str) -> tuple[str, str]:
    """Why ncu gave no counters, by what it printed, and what to do."""
    for pattern, why, fix in _MEANINGS:
        if re.search(pattern, said):
            return why, fix
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    line = next((line for line in lines if "==ERROR==" in line), lines[-1] if lines else "nothing")
    text = line.replace("==ERROR==", "").strip()[:200]
    return f"ncu said: {text}", "See its log; an ncu older than the driver fails too."


def _restricted(why: str) -> str:
    """What the driver itself says of the restriction."""
    try:
        text = Path("/proc/driver/nvidia/params").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    said = "RmProfilingAdminOnly: 1" in text and "ERR_NVGPUCTRPERM" in why
    return "; the driver restricts them to administrators" if said else ""
