"""Decide with which fewer options a program is recorded again after a loss, the most suspected option first."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from nsysprof.capture.user_program.program_plan import software_trace
from nsysprof.results.checks import Lost

# A program that took no longer than this (s) is recorded again without asking.
SHORT_S = 120.0
# The lowest frequency of its counters that nsys takes (Hz).
_LEAST_METRICS_HZ = 10


@dataclass(frozen=True)
class Reduction:
    """One way to record with fewer options."""

    # Options for nsys, which replace those of the same name.
    options: tuple[str, ...]
    # The options that are left out, as written in the command line.
    suspects: tuple[str, ...]
    # What the trace will lack, as text.
    without: str
    # Whether counters are not sampled.
    drops_metrics: bool = False
    # Whether some NVTX ranges, or all, are not recorded.
    drops_ranges: bool = False
    # Whether this loss is known for these versions.
    is_known: bool = False


def reductions(
    used: Mapping[str, str],
    lost: tuple[Lost, ...],
    *,
    nsys: str | None = None,
    driver: str | None = None,
    knows_software_trace: bool = False,
    domains: Collection[str] = (),
) -> tuple[Reduction, ...]:
    """Return the ways to record with fewer options, in the order in which to try them.

    used: the options of the recording that lost data, by name.
    nsys, driver: their versions.
    knows_software_trace: whether this nsys has `--trace=cuda-sw`.
    domains: the NVTX domains in the recording.
    """
    # A process can be missing for reasons other than a fork, so this is only a suspicion.
    kinds = [kind for kind in lost if kind is not Lost.PROCESS]
    known = {loss.option for kind in kinds for loss in find_known(nsys, driver, kind)}
    if lost == (Lost.SAMPLES,):
        return tuple(_fewer_samples(used))
    possible = [
        *_without_ranges(used, lost, domains),
        *_lost_events(used, lost, knows_software_trace),
        *_missed_processes(used, lost),
    ]
    # What is known of ranges holds with and without calls of the OS runtime.
    return tuple(
        replace(way, is_known=bool(known & {suspect.removesuffix(",osrt") for suspect in way.suspects}))
        for way in possible
    )


def _without_ranges(used: Mapping[str, str], lost: tuple[Lost, ...], domains: Collection[str]) -> Iterator[Reduction]:
    """Yield the recording without the ranges of XLA, and without any.

    nsys fails on strings of libraries' ranges and leaves out what came after.
    """
    traced = used.get("--trace", "").removeprefix("--trace=")
    left = ",".join(api for api in traced.split(",") if api != "nvtx")
    if Lost.EVENTS not in lost or not left or left == traced:
        return
    if XLA_DOMAIN in domains and not any(name.startswith("--nvtx-domain-") for name in used):
        lacks = f"the NVTX ranges of XLA (domain {XLA_DOMAIN})"
        yield Reduction((WITHOUT_XLA,), (used["--trace"],), lacks, drops_ranges=True)
    yield Reduction((f"--trace={left}",), (used["--trace"],), "the NVTX ranges", drops_ranges=True)


def _fewer_samples(used: Mapping[str, str]) -> Iterator[Reduction]:
    """Yield recordings with fewer samples of the counters, but none without any: they were asked for."""
    option = "--gpu-metrics-frequency"
    _, _, rate = used.get(option, "").partition("=")
    for rate_hz in (int(rate) // 4, int(rate) // 20) if rate.isdecimal() else ():
        if rate_hz >= _LEAST_METRICS_HZ:
            lacks = f"counters at {int(rate):,} Hz (they are sampled at {rate_hz:,} Hz)"
            yield Reduction((f"{option}={rate_hz}",), (used[option],), lacks)


def _missed_processes(used: Mapping[str, str], lost: tuple[Lost, ...]) -> Iterator[Reduction]:
    option = "--trace-fork-before-exec"
    if Lost.PROCESS in lost and used.get(option, f"{option}=false") == f"{option}=false":
        yield Reduction((f"{option}=true",), (f"{option}=false",), "nothing")


def _lost_events(used: Mapping[str, str], lost: tuple[Lost, ...], knows_software_trace: bool) -> Iterator[Reduction]:
    if not set(lost) - {Lost.PROCESS, Lost.REPLACED}:
        return
    memory = used.get("--cuda-memory-usage") == MEMORY_USAGE
    if memory:
        yield Reduction(("--cuda-memory-usage=false",), (MEMORY_USAGE,), "the memory of the GPU over time")
    options, suspects, without = ["--cuda-memory-usage=false"], [MEMORY_USAGE] if memory else [], []
    if Lost.GRAPH_NODES in lost and used.get("--cuda-graph-trace") == NODE_TRACE:
        options.append("--cuda-graph-trace=graph")
        suspects.append(NODE_TRACE)
        without.append("the kernels of graphs")
    for name, least in (("--cuda-flush-interval", "0"), ("--cudabacktrace", "none"), ("--sample", "none")):
        if used.get(name, f"{name}={least}") != f"{name}={least}":
            options.append(f"{name}={least}")
            suspects.append(used[name])
    metrics = any(name.startswith("--gpu-metrics") for name in used)
    if metrics:
        without.append("counters")
        suspects += [option for name, option in used.items() if name.startswith("--gpu-metrics-device")]
    if set(suspects) - {MEMORY_USAGE}:
        lacks = ", ".join([*(["the memory of the GPU over time"] if memory else []), *without]) or "nothing"
        yield Reduction(tuple(options), tuple(suspects), lacks, drops_metrics=metrics)
    traced = used.get("--trace", "").removeprefix("--trace=")
    software = software_trace(traced)
    if knows_software_trace and software != traced:
        yield Reduction(
            (*options, f"--trace={software}"), (*suspects, used["--trace"]), "what only tracing by hardware gives",
            drops_metrics=metrics,
        )  # fmt: skip


MEMORY_USAGE = "--cuda-memory-usage=true"
WITH_RANGES = "--trace=cuda,nvtx"
NODE_TRACE = "--cuda-graph-trace=node"
NO_FORKS = "--trace-fork-before-exec=false"
# The NVTX domain of XLA, whose ranges nsys may fail to import, and the option that leaves them out.
XLA_DOMAIN = "TSL"
WITHOUT_XLA = f"--nvtx-domain-exclude={XLA_DOMAIN}"


@dataclass(frozen=True)
class KnownLoss:
    """One way in which nsys was observed to lose data."""

    # The version prefixes of nsys and the driver; empty for any.
    nsys: str
    driver: str
    # The option as written in the command line of nsys; empty where no option is the cause.
    option: str
    lost: Lost
    # The programs that lost data, and how much was left.
    what: str
    remedy: str


KNOWN_LOSSES = (
    KnownLoss(
        "2025.3.1",
        "580",
        WITH_RANGES,
        Lost.EVENTS,
        "JAX: often all of 50 to 1456 kernels, with exit code 0: the importer fails on a string of XLA's ranges "
        "(*Cannot find string for an exterior index*), with and without `--cuda-memory-usage`. torch and "
        "CuPy lose nothing.",
        f"`--nsys-option={WITHOUT_XLA}`, without the ranges of XLA: 50 of 50; or `--trace cuda`, without any: "
        "50 of 50.",
    ),
    KnownLoss("2022.4.2", "580", "", Lost.KERNELS, "torch: 0 of 1086 kernels, with exit code 0.", "A newer nsys."),
    KnownLoss("2023.4.4", "580", "", Lost.KERNELS, "torch: 13 of 1086 kernels, with exit code 0.", "A newer nsys."),
    KnownLoss(
        "",
        "",
        NO_FORKS,
        Lost.PROCESS,
        "Processes that were forked and run no new program (`fork` of multiprocessing): 0 of 60 kernels with 2025.3.1.",
        "`--nsys-option=--trace-fork-before-exec=true`: 60 of 60.",
    ),
    KnownLoss(
        "2025.3.1",
        "580",
        "",
        Lost.PROCESS,
        "A process that is killed (SIGKILL): 0 of 100 kernels, although they had ended 3 s before.",
        "End the program by another signal.",
    ),
    KnownLoss(
        "2025.3.1",
        "580",
        "",
        Lost.REPLACED,
        "What a process did before it replaced itself (`exec`): 0 of 101 kernels, although they had ended 2 s before. "
        "The 101 after it are recorded.",
        "Start the next program as a new process.",
    ),
)


def find_known(nsys: str | None, driver: str | None, lost: Lost) -> tuple[KnownLoss, ...]:
    """Return the known losses of this kind with these versions.

    A version that is unknown (None) only matches losses of any version.
    """
    return tuple(
        loss
        for loss in KNOWN_LOSSES
        if loss.lost is lost and (nsys or "").startswith(loss.nsys) and (driver or "").startswith(loss.driver)
    )
