"""Check what this machine can do by trying it: an nsys recording, an ncu counter, torch, and the disks."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from nsysprof.capture.self_check.probe import has_driver, probe_key, run_probe, variants_of, write_probes
from nsysprof.environment import collect_gpus, driver_cuda_version, read_clocks
from nsysprof.errors import MissingToolError, ToolFailedError
from nsysprof.native.load import native_problem
from nsysprof.nsight.ncu import probe_counters
from nsysprof.nsight.nsys import explain_profile_failure, profile_argv, run_export
from nsysprof.nsight.run_tool import GET_NSYS, NCU, NSYS, Tool, find_tool, run_tool, tool_version
from nsysprof.results.checks import Check, ProbeResult, ProbeVerdict, State
from nsysprof.results.roof import link_bytes_per_s
from nsysprof.units import format_bytes, format_percent, format_rate

_TRY_S = 180.0
_LEAST_BYTES = 2 << 30
_LAUNCHES = 7
_PROBE = [sys.executable, "-m", "nsysprof.workload.doctor_probe"]
_LINK_PROBE = [sys.executable, "-m", "nsysprof.workload.link_probe"]
# A link between GPUs that carries less than this share of its NVLink is worth a look.
_LEAST_OF_LINK = 0.5
# Environment variables that change what is measured, or interfere with a profiler.
_VARIABLES = {
    "CUDA_LAUNCH_BLOCKING": "every launch waits for the GPU",
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "every tensor is a cudaMalloc",
    "CUDA_INJECTION64_PATH": "another tool is loaded into every CUDA program",
    "NVTX_INJECTION64_PATH": "another tool receives the NVTX ranges",
    "LD_PRELOAD": "a library is loaded into every program",
}


def run_checks(say: Callable[[str], None], *, links: bool = False) -> list[Check]:
    """Return the results of all checks, in the order in which a user needs them.

    say: called with the name of the next check, because some checks take seconds.
    links: whether to measure what the links between GPUs carry.
    """
    say("python, packages, GPUs")
    gpus = collect_gpus()
    checks = [*_packages(), _gpu(gpus), *_clocks(gpus), *_variables(), *_disks()]
    say("torch")
    torch, facts = _torch(bool(gpus))
    usable = bool(facts.get("cuda_available"))
    say("nsys: recording")
    if links:
        say("links: copying for two seconds")
        checks += measure_links(usable)
        say("nsys: recording")
    checks += [torch, *_driver(driver_cuda_version(), facts.get("cuda")), *_nsys(usable), *_probes(gpus, say)]
    say("ncu: reading a counter")
    return [*checks, *_ncu(usable)]


def _packages() -> Iterator[Check]:
    text = f"Python {sys.version_info.major}.{sys.version_info.minor}.{sys.version_info.micro}"
    yield Check("python", State.OK, text)
    problem = native_problem()
    if problem is None:
        yield Check("compiled part", State.OK, "it reads traces")
    else:
        fix = "Install nsysprof again, from a wheel or where there is a C compiler."
        yield Check("compiled part", State.ABSENT, f"{problem}; traces take several times as long", fix)
    for name, needed, fix in (
        ("nvidia-ml-py", "clocks, driver and GPU names", "pip install 'nsysprof[torch]'"),
        ("nvtx", "ranges in captures", "pip install 'nsysprof[torch]'"),
        ("matplotlib", "figures", "pip install 'nsysprof[figures]'"),
        ("pyarrow", "folders of Parquet", "pip install 'nsysprof[parquet]'"),
    ):
        try:
            yield Check(name, State.OK, version(name))
        except PackageNotFoundError:
            yield Check(name, State.ABSENT, f"not installed; it gives {needed}", fix)


def _gpu(gpus: list[dict[str, Any]]) -> Check:
    if not gpus:
        text = "no NVIDIA GPU or driver that NVML sees; traces can be read, and CPU operators captured"
        return Check("gpu", State.ABSENT, text, "If there should be one, check what nvidia-smi says.")
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
            yield Check(name, State.PROBLEM, f"cannot be read: {error.strerror}", "Choose another folder.")
            continue
        state = State.OK if free >= _LEAST_BYTES else State.WARNING
        fix = "" if state is State.OK else "A capture takes hundreds of MB: free some, or set --out and TMPDIR."
        yield Check(name, state, f"{format_bytes(free)} free", fix)


def _torch(has_gpu: bool) -> tuple[Check, dict[str, Any]]:
    facts, said = _run_probe(_PROBE)
    if said:
        if "No module named 'torch'" in said:
            return Check("torch", State.ABSENT, "not installed; capture, bench and tune need it",
                         "pip install 'nsysprof[torch]'"), {}  # fmt: skip
        return Check("torch", State.PROBLEM, f"cannot be used: {said}", "Install a torch that fits the driver."), {}
    text = f"{facts['torch']}, CUDA {facts['cuda']}" if facts["cuda"] else f"{facts['torch']}, without CUDA"
    if has_gpu and not facts["cuda_available"]:
        why = "is built without CUDA" if not facts["cuda"] else "cannot use this GPU"
        fix = "Install a build with CUDA that the driver supports (pytorch.org), and see CUDA_VISIBLE_DEVICES."
        return Check("torch", State.PROBLEM, f"{text}: it {why}", fix), facts
    capability = facts["capability"]
    if capability and facts["architectures"] and not _supports(facts["architectures"], capability):
        fix = "Install a torch that is built for it: kernels are compiled at first use, or fail."
        return Check("torch", State.WARNING, f"{text} has no kernels for {capability}", fix), facts
    return Check("torch", State.OK, text), facts


def _driver(newest: tuple[int, int] | None, built: str | None) -> Iterator[Check]:
    """Yield whether the driver is new enough for torch's CUDA, and so for the CUPTI that comes with it."""
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
        fix = "It runs through CUDA's minor-version compatibility; a newer driver supports all of CUPTI."
        yield Check("driver", State.WARNING, f"{said}, which is newer", fix)
    else:
        yield Check("driver", State.OK, said)


def measure_links(usable: bool) -> list[Check]:
    """Return what each link carries, compared with the NVLink of its board where that is known.

    usable: whether torch can use a GPU.
    """
    if not usable:
        fix = "Run it on the machine of the job, with a torch that can use its GPUs."
        return [Check("links", State.ABSENT, "torch can use no GPU here", fix)]
    links, said = _run_probe(_LINK_PROBE)
    if said:
        return [Check("links", State.PROBLEM, f"cannot be measured: {said}", "Look whether the GPUs are free.")]
    return [judge_link(link) for link in links]


def judge_link(link: dict[str, Any]) -> Check:
    """Return the check of a measured link: from, to, gpu, bytes_per_s."""
    name, rate = f"link {link['from']} to {link['to']}", float(link["bytes_per_s"])
    text = format_rate(rate, "B/s")
    peak = None if "cpu" in (link["from"], link["to"]) else link_bytes_per_s(link["gpu"])
    if peak is None:
        return Check(name, State.OK, text)
    text = f"{text}, {format_percent(100 * rate / peak)} of the board's NVLink"
    if rate >= _LEAST_OF_LINK * peak:
        return Check(name, State.OK, text)
    fix = "nvidia-smi topo -m and nvidia-smi nvlink --status say which links are up; another job may use them."
    return Check(name, State.WARNING, text, fix)


def _run_probe(argv: Sequence[str]) -> tuple[Any, str]:
    """Run a program that prints JSON; return it, or what the program said where it failed."""
    try:
        done = run_tool(argv, timeout_s=_TRY_S)
    except ToolFailedError as error:
        return None, error.text
    if done.returncode != 0:
        return None, _last_line(done.stderr) or f"it ended with {done.returncode}"
    return json.loads(done.stdout.splitlines()[-1]), ""


def _supports(architectures: list[str], capability: str) -> bool:
    """Return whether a GPU can run kernels built for any of these architectures: same major version, and not newer."""
    here = int(capability.removeprefix("sm_"))
    built = [int(re.sub(r"\D", "", name)) for name in architectures if name.startswith("sm_")]
    return any(version // 10 == here // 10 and version <= here for version in built)


def _nsys(usable: bool) -> Iterator[Check]:
    nsys = yield from _find(NSYS, f"{GET_NSYS}; torch's own profiler works without it.")
    if nsys is not None:
        yield _record(nsys, usable)


def _find(tool: Tool, how_to_get: str) -> Generator[Check, None, Path | None]:
    """Yield the check of one of NVIDIA's programs, and return the program where it runs."""
    try:
        path = find_tool(tool)
    except MissingToolError as error:
        yield Check(tool.name, State.PROBLEM, error.text, error.next_step)
        return None
    if path is None:
        yield Check(tool.name, State.ABSENT, "not found", how_to_get)
        return None
    named = tool_version(path)
    if named is None:
        yield Check(tool.name, State.PROBLEM, f"{path} does not run", "Install it again.")
        return None
    yield Check(tool.name, State.OK, f"{named} ({path})")
    return path


def _probes(gpus: list[dict[str, Any]], say: Callable[[str], None]) -> Iterator[Check]:
    """Try options of nsys with a known amount of work, store the results for captures, and yield them as checks."""
    with contextlib.suppress(MissingToolError):
        nsys = find_tool(NSYS)
        if not gpus or nsys is None or not has_driver():
            return
        results = []
        for variant in variants_of(nsys, everything=True):
            say(f"nsys: {variant.name} ({' '.join(variant.options) or 'usual options'})")
            results.append(run_probe(nsys, variant))
            if results[-1].verdict is ProbeVerdict.UNKNOWN:
                yield Check("nsys options", State.WARNING, f"could not be tried: {results[-1].text}")
                return
        names = tuple(gpu["name"] for gpu in gpus)
        write_probes(probe_key(tool_version(nsys), gpus[0]["driver_version"], names), tuple(results))
        for result in results:
            yield _probe_check(result, has_way=any(tried.verdict is ProbeVerdict.COMPLETE for tried in results))


def _probe_check(result: ProbeResult, *, has_way: bool) -> Check:
    name = f"nsys {result.name}"
    if result.verdict is ProbeVerdict.COMPLETE:
        return Check(name, State.OK, f"{result.text} in {result.seconds:.1f} s")
    fix = (
        f"Do not use {' '.join(result.options)} here."
        if result.options
        else "capture uses the next variant that loses nothing."
    )
    return Check(name, State.WARNING if has_way else State.PROBLEM, f"{result.verdict}: {result.text}", fix)


def _record(nsys: Path, usable: bool) -> Check:
    """Record and export a tiny program, and count its kernels."""
    name = "nsys recording"
    with tempfile.TemporaryDirectory(prefix="nsysprof-") as scratch:
        report, trace = Path(scratch) / "try.nsys-rep", Path(scratch) / "try.sqlite"
        program = [*_PROBE, str(_LAUNCHES)] if usable else [sys.executable, "-c", "pass"]
        failure: ToolFailedError | None
        try:
            done = run_tool(profile_argv(nsys, report.with_suffix(""), program), timeout_s=_TRY_S)
        except ToolFailedError as error:
            failure = error
        else:
            if done.returncode != 0 or not report.exists():
                failure = explain_profile_failure(done.returncode, done.stdout + done.stderr)
            else:
                _, failure = run_export(nsys, report, trace, timeout_s=_TRY_S)
        if failure is not None:
            return Check(name, State.PROBLEM, failure.text, failure.next_step)
        kernels = _count_kernels(trace)
    if not usable:
        return Check(name, State.OK, "records and exports; there is no GPU to record here")
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
    ncu = yield from _find(NCU, "Install Nsight Compute for hardware counters.")
    if ncu is not None and usable:
        yield _count(ncu)


def _count(ncu: Path) -> Check:
    """Read one hardware counter of one tiny kernel."""
    problem = probe_counters(ncu)
    if problem is None:
        return Check("hardware counters", State.OK, "ncu reads DRAM bytes")
    return Check("hardware counters", State.PROBLEM, *problem)


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it said nothing"
