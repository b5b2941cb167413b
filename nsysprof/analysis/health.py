"""What is wrong with a trace, as notes: lost kernels, missing tables, partial exports."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from nsysprof.analysis.work import COPY, GRAPH, KERNEL
from nsysprof.notes import Note, Severity
from nsysprof.range_name import parse_range
from nsysprof.trace.schema import Tables

_LAUNCHES = re.compile(r"^(cuda|cu)Launch(?!HostFunc)|^cudaLaunchCooperative|^(cuda|cu)GraphLaunch")
_UPDATE_NSYS = (
    "nsys is probably older than the driver: use a newer nsys (nsys --version, nvidia-smi), and see that no other "
    "profiler runs."
)


def launch_calls(tables: Tables) -> np.ndarray:
    """For each API call, whether its name says that it launches kernels and it succeeded."""
    if tables.launches is None or len(tables.strings) == 0:
        return np.zeros(0 if tables.launches is None else len(tables.launches), dtype=bool)
    ids = tables.strings.index[tables.strings.map(lambda text: _LAUNCHES.match(text) is not None)]
    return (tables.launches["name_id"].isin(ids) & (tables.launches["return_value"] == 0)).to_numpy()


def find_data_loss(tables: Tables, work: pd.DataFrame) -> tuple[int | None, list[Note]]:
    """The number of launch calls without GPU work (None when no calls were recorded), and what follows from it."""
    ours = tables.ranges is not None and any(parse_range(name) for name in tables.ranges["name"].unique())
    kernels = int((work["kind"] == KERNEL).sum())
    replays = int((work["kind"] == GRAPH).sum())
    if tables.launches is None or len(tables.launches) == 0:
        return None, _no_kernels(kernels, replays, ours, calls=0)
    calls = launch_calls(tables)
    matched = np.zeros(len(calls), dtype=bool)
    matched[work.loc[(work["launch"] >= 0) & (work["kind"] != COPY), "launch"].to_numpy()] = True
    lost = int((calls & ~matched).sum())
    total = int(calls.sum())
    if kernels + replays == 0:
        return lost, _no_kernels(kernels, replays, ours, total)
    if lost == 0:
        return lost, []
    severity = Severity.ERROR if lost > 0.01 * total else Severity.WARNING
    text = f"{lost:,} of {total:,} kernel launches have no kernel in the trace: the profiler lost them."
    return lost, [Note("launches-without-kernels", severity, text, _UPDATE_NSYS)]


def _no_kernels(kernels: int, replays: int, ours: bool, calls: int) -> list[Note]:
    if kernels + replays:
        return []
    if calls or ours:
        text = f"The trace has no kernels, although {calls:,} launches were recorded." if calls else (
            "The trace has measured ranges of ours but not one kernel: the profiler recorded no GPU work."
        )  # fmt: skip
        return [Note("no-kernels", Severity.ERROR, text, _UPDATE_NSYS)]
    return [
        Note(
            "no-kernels",
            Severity.WARNING,
            "The trace has no kernels; whether the program ran any is unknown.",
            "Record with --trace=cuda,nvtx, and follow child processes if the GPU work is theirs.",
        )
    ]


def read_health(tables: Tables, *, dropped: int, open_ranges: int, bad_ranges: int, unmatched_frees: int) -> list[Note]:
    """Notes on everything else that changes what the numbers mean."""
    notes: list[Note] = []

    def add(code: str, severity: Severity, text: str, next_step: str = "") -> None:
        notes.append(Note(code, severity, text, next_step))

    if tables.ranges is None or len(tables.ranges) == 0:
        add(
            "no-nvtx", Severity.WARNING, "The trace has no NVTX ranges; everything is counted for the whole trace only.",
            "Record with --trace=cuda,nvtx and mark the code with NVTX ranges.",
        )  # fmt: skip
    if tables.memory is None:
        add(
            "no-memory-usage", Severity.WARNING, "Peak memory is unknown: captured without --cuda-memory-usage.",
            "Record with nsys profile --cuda-memory-usage=true.",
        )  # fmt: skip
    add(
        "no-dram-counters", Severity.INFO,
        "DRAM traffic is unknown: no hardware counters were recorded. Copied and set bytes are not DRAM traffic.",
    )  # fmt: skip
    if tables.graphs is not None and len(tables.graphs):
        add(
            "graph-mode", Severity.WARNING,
            f"{len(tables.graphs):,} CUDA graph replays were recorded as wholes: their kernels are unknown.",
            "Record with --cuda-graph-trace=node to see the kernels.",
        )  # fmt: skip
    counts = (
        (dropped, "impossible-times", "rows of GPU work have no or negative times and were left out"),
        (bad_ranges, "impossible-ranges", "NVTX ranges end before they start and were left out"),
        (open_ranges, "open-ranges", "NVTX ranges were never closed; they end with the trace"),
        (unmatched_frees, "unmatched-frees", "frees of memory whose allocation was not recorded"),
    )
    for count, code, text in counts:
        if count:
            add(code, Severity.WARNING, f"{count:,} {text}.")
    for name in ("TABLES_TO_EXPORT", "TIMES_TO_EXPORT"):
        if tables.export_facts.get(f"EXPORT_PARAM_{name}", "").strip():
            add("partial-export", Severity.WARNING, f"The export was restricted ({name}).", "Export the whole report.")
    for severity, text in tables.diagnostics:
        if severity >= 3:  # 1 information, 2 warning: see _SEVERITY of ENUM_DIAGNOSTIC_SEVERITY_LEVEL
            continue
    notes += _diagnostic_notes(tables)
    return notes


_SEVERE = re.compile(
    r"not supported|might have not been|[Nn]ot all .*collected|dropped|lost|overflow|[Ff]ailed|incomplete|missing"
)


def _diagnostic_notes(tables: Tables) -> list[Note]:
    """The messages of nsys itself that speak of missing data, without paths and addresses."""
    texts = dict.fromkeys(text.split("\n")[0][:300] for _severity, text in tables.diagnostics if _SEVERE.search(text))
    shown = [re.sub(r"/\S+", "<path>", text) for text in texts]
    return [Note("nsys-diagnostic", Severity.WARNING, f"nsys says: {text}") for text in shown[:10]]
