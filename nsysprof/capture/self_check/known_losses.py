"""List the options of each nsys version that are known to lose data, and how that was observed."""

from __future__ import annotations

from dataclasses import dataclass

from nsysprof.results.checks import Lost

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
        "End the program by another signal, or record it with `--profiler cupti`: 100 of 100.",
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
        each
        for each in KNOWN_LOSSES
        if each.lost is lost and (nsys or "").startswith(each.nsys) and (driver or "").startswith(each.driver)
    )
