"""Run ncu: build its command lines, read its reports, explain its failures, and test the counters."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from nsysprof.errors import ToolFailedError, TraceError
from nsysprof.nsight.counters import metrics_of
from nsysprof.nsight.ncu_csv import NcuPage, parse_ncu_csv
from nsysprof.nsight.run_tool import run_tool
from nsysprof.results.kernel_counters import FP64_METRICS, Run

ADMIN_ONLY = (
    "options nvidia NVreg_RestrictProfilingToAdminUsers=0 in /etc/modprobe.d and a reboot, or CAP_SYS_ADMIN, or root"
)
_PROBE_METRIC = "dram__bytes_read.sum"
_PROBE = [sys.executable, "-m", "nsysprof.workload.doctor_probe", "7"]
_PROBE_S = 180.0
_IMPORT_S = 600.0
_HELP_S = 60.0
# Every option is given whose default differs between versions or changes what is counted.
_OPTIONS = ("--target-processes", "all", "--clock-control", "none", "--force-overwrite", "--nvtx")
# Sections about source code need the machine code, which is what makes reports large (60 MB with torch's kernels).
_WITHOUT_CODE = ("--import-source", "no", "--import-sass", "no")
_IN_OUR_RANGES = "regex:RUN::.*"
# One argument of a command line may have 128 KiB.
_MOST_LETTERS = 60_000
_MEANINGS = (
    (r"ERR_NVGPUCTRPERM", "the driver does not permit reading hardware counters (ERR_NVGPUCTRPERM)", ADMIN_ONLY),
    (
        r"driver resource was unavailable|ERR_NVGPUCTRBUSY|another profiler|Profiler .* already in use",
        "another profiler holds the hardware counters",
        "Stop it: DCGM with dcgmi profile --pause, or another nsys or ncu.",
    ),
    (
        r"[Cc]uda driver is not compatible|driver version is insufficient|unsupported .*driver|not supported on this",
        "this ncu does not support the driver or the GPU",
        "Use an ncu that is as new as the driver (--ncu).",
    ),
    (
        r"unexpected incompatibility|newer version|created with a different version",
        "the report is damaged, or from another version of ncu",
        "Read it with the ncu that wrote it (--ncu).",
    ),
    (r"File is too small|not a valid report", "the file is not a report of ncu", "Give a .ncu-rep or a .csv of ncu."),
    (r"[Nn]o space left on device", "ncu ran out of disk space", "Free some space, or set --out and TMPDIR."),
    (r"No kernels were profiled", "ncu found no kernel inside the ranges", "See the log of the pass."),
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
    """Return the command line that counts every launch of `program` inside one of our ranges into `report`.

    The traffic run leaves caches as they are. The detail run replays each launch from cold caches.

    more_metrics, sections: what the user asked for in addition.
    most: how many launches to count; None counts all.
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


def count_program_argv(ncu: Path, report: Path, symbols: Sequence[str], program: Sequence[str]) -> list[str]:
    """Return the command line that counts the first launch of each kernel and grid of any program into `report`.

    Each launch is replayed from cold caches.

    symbols: the mangled names of the kernels to count; those that make the command line too long are left out.
    """
    names, letters = list[str](), 0
    for name in symbols:
        letters += len(name) + 1
        if names and letters > _MOST_LETTERS:
            break
        names.append(re.sub(r"\W", r"\\\g<0>", name))
    metrics = [*metrics_of(Run.DETAIL), *FP64_METRICS]
    argv = [str(ncu), *_OPTIONS, "--metrics", ",".join(metrics), "--cache-control", "all", "--replay-mode", "kernel"]
    argv += ["--kernel-name-base", "mangled", "--kernel-name", f"regex:^({'|'.join(names)})$"]
    argv += ["--filter-mode", "per-launch-config", "--launch-count", "1", *_known_options(ncu)]
    return [*argv, "--export", str(report), *program]


@cache
def _known_options(ncu: Path) -> tuple[str, ...]:
    """Return the options of _WITHOUT_CODE that this ncu knows."""
    try:
        done = run_tool([str(ncu), "--help"], timeout_s=_HELP_S)
    except ToolFailedError:
        return ()
    pairs = zip(_WITHOUT_CODE[::2], _WITHOUT_CODE[1::2], strict=True)
    return tuple(word for option, value in pairs if option in done.stdout for word in (option, value))


def read_report(ncu: Path, report: Path, names: str) -> NcuPage:
    """Return the launches of a report. Raises TraceError with ncu's message.

    names: "demangled" or "mangled" names of kernels.
    """
    argv = [str(ncu), "--import", str(report), "--csv", "--page", "raw", "--print-units", "base", "--print-fp"]
    argv += ["--print-kernel-base", names]
    try:
        done = run_tool(argv, timeout_s=_IMPORT_S)
    except ToolFailedError as error:
        raise TraceError(f"{report.name} cannot be read: {error.text}", "Name another ncu with --ncu.") from error
    if done.returncode != 0 or '"ID"' not in done.stdout:
        why, fix = explain_counters(done.stdout + done.stderr)
        raise TraceError(f"{report.name} cannot be read: {why}.", fix)
    return parse_ncu_csv(done.stdout)


def probe_counters(ncu: Path) -> tuple[str, str] | None:
    """Return why hardware counters cannot be read here and what to do; None when a tiny kernel could be counted."""
    options = ["--metrics", _PROBE_METRIC, "--launch-count", "1", "--clock-control", "none", "--csv"]
    try:
        done = run_tool([str(ncu), *options, *_PROBE], timeout_s=_PROBE_S)
    except ToolFailedError as error:
        return error.text.rstrip("."), "Check that DCGM or another profiler does not hold the counters, and --ncu."
    said = done.stdout + done.stderr
    if _PROBE_METRIC in done.stdout and "ERR_NVGPUCTRPERM" not in said:
        return None
    why, fix = explain_counters(said)
    return why + _restricted(why), fix


def explain_counters(said: str) -> tuple[str, str]:
    """Return why ncu gave no counters, judged by what it printed, and what to do about it."""
    for pattern, why, fix in _MEANINGS:
        if re.search(pattern, said):
            return why, fix
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    line = next((line for line in lines if "==ERROR==" in line), lines[-1] if lines else "nothing")
    text = line.replace("==ERROR==", "").strip()[:200]
    return f"ncu said: {text}", "See its log; an ncu older than the driver fails too."


def _restricted(why: str) -> str:
    """Return a clause for the user when the driver itself restricts the counters, otherwise an empty text."""
    try:
        text = Path("/proc/driver/nvidia/params").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    said = "RmProfilingAdminOnly: 1" in text and "ERR_NVGPUCTRPERM" in why
    return "; the driver restricts them to administrators" if said else ""
