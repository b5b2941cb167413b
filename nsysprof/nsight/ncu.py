"""Run ncu: build its command lines, choose the counters, read what it prints, and explain its failures.

Read what `ncu --csv` prints, of any version and locale: one row per launch (`--page raw`) or per metric.

Numbers are returned in base units: bytes, nanoseconds, hertz, percent. ncu scales units to the value (Mbyte, usecond),
and writes numbers with the separators of the locale, where "27.595" may mean 27595 or 27.595. Values that can be read
in only one way show which of the two a file uses. Where there are none, a doubtful value of a counted quantity (bytes,
sectors, instructions) is read as a whole number, and any other is refused.

Choose the hardware counters to request from ncu, and compute ours from what ncu reports for each launch.

Each case is counted twice, because one run cannot answer both questions:

- *traffic*: only DRAM bytes and time, which fit into one pass. So nothing is replayed, and caches stay as earlier
  kernels left them. The sum over its launches is what a case moves.
- *detail*: more counters need several passes, for which each launch is replayed from cold caches. This gives the rates
  and hit rates of a single kernel.
"""

from __future__ import annotations

import csv
import math
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from nsysprof.errors import ToolFailedError, TraceError
from nsysprof.nsight.run_tool import run_tool
from nsysprof.results.kernel_counters import FP64_METRICS, CountedKernel, Run

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


_HEADER = '"ID"'
_NOTHING = {"", "n/a", "(!) n/a", "no data", "-"}
# Each unit that ncu uses, with its size in base units. K is 1000 for bytes too.
_UNITS = {
    **dict.fromkeys(("byte", "B"), ("byte", 1.0)),
    **{f"{p}byte": ("byte", f) for p, f in (("K", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12))},
    **dict.fromkeys(("ns", "nsecond"), ("ns", 1.0)),
    **dict.fromkeys(("us", "usecond"), ("ns", 1e3)),
    **dict.fromkeys(("ms", "msecond"), ("ns", 1e6)),
    **dict.fromkeys(("s", "second"), ("ns", 1e9)),
    **{f"{p}hz": ("hz", f) for p, f in (("", 1.0), ("K", 1e3), ("M", 1e6), ("G", 1e9))},
    **{f"cycle/{p}second": ("hz", f) for p, f in (("", 1.0), ("u", 1e6), ("n", 1e9))},
}
_WHOLE = {"byte", "cycle", "sector", "inst", "warp", "block", "thread", "pass", "register/thread", "byte/block"}
_POINT = re.compile(r"-?\d{1,3}(,\d{3})+\.\d+|-?\d{1,3}(,\d{3}){2,}|-?\d+\.(\d{1,2}|\d{4,})|-?0\.\d+")
_COMMA = re.compile(r"-?\d{1,3}(\.\d{3})+,\d+|-?\d{1,3}(\.\d{3}){2,}|-?\d+,(\d{1,2}|\d{4,})|-?0,\d+")
_PLAIN = re.compile(r"-?[0-9]+")
# The number of a launch. Python refuses to convert thousands of digits.
_ID = re.compile(r"[0-9]{1,18}")
# How many characters of a cell of ranges are read.
_MOST_RANGE_TEXT = 8_000
_DOUBTFUL = re.compile(r"-?\d{1,3}[.,]\d{3}")
_SCIENTIFIC = re.compile(r"-?\d+(\.\d+)?[eE][+-]?\d+")
_MESSAGE = re.compile(r":(?:REGISTERED|ASCII|UNICODE):(.*)$", re.DOTALL)
_CLOSING = re.compile(r'"(?=\s|$)')


@dataclass(frozen=True)
class NcuKernel:
    """One launch that ncu measured."""

    number: int
    # The kernel's name, demangled or mangled as ncu was asked to print it.
    name: str
    # The messages of the NVTX ranges around the launch.
    ranges: tuple[str, ...]
    grid: str
    block: str
    # The metrics that have a value, in base units.
    metrics: dict[str, float]
    # Cells that are not numbers, such as the device's name.
    texts: dict[str, str]


@dataclass(frozen=True)
class NcuPage:
    """The launches of a table."""

    kernels: tuple[NcuKernel, ...]
    # Metrics with values that could be read as two different numbers, and how many such values each has.
    refused: dict[str, int]


def parse_ncu_csv(text: str) -> NcuPage:
    """Return the launches of a table that ncu printed.

    Lines before the header (the program's own output, ==PROF== lines) and after the table are ignored. Raises
    TraceError, with what ncu said, when there is no table.
    """
    rows = list(_rows(text))
    if not rows:
        said = next((line.partition("==ERROR==")[2].strip() for line in text.splitlines() if "==ERROR==" in line), "")
        why = f"ncu said: {said[:200]}" if said else 'no line begins with "ID"'
        raise TraceError(
            f"This is not a table of Nsight Compute: {why}.", "Print it with ncu --import FILE --csv --page raw."
        )
    header, body = rows[0], [row for row in rows[1:] if len(row) == len(rows[0])]
    if not {"ID", "Kernel Name"} <= set(header):
        raise TraceError("This table of Nsight Compute has no column Kernel Name.", "Print it with --page raw.")
    return _long(header, body) if "Metric Name" in header else _wide(header, body)


def _rows(text: str) -> Iterator[list[str]]:
    lines = text.lstrip("\ufeff").splitlines(keepends=True)
    start = next((i for i, line in enumerate(lines) if line.startswith((_HEADER, "ID,"))), None)
    if start is None:
        return
    kept = (line for line in lines[start:] if not line.startswith("=="))
    try:
        yield from csv.reader(kept)
    except csv.Error as error:
        raise TraceError(f"This table of Nsight Compute is damaged: {error}.", "Print it again.") from error


class _Numbers:
    """Reads the numbers of one file by one convention."""

    def __init__(self, cells: Iterator[str]) -> None:
        point = comma = False
        for cell in cells:
            point = point or _POINT.fullmatch(cell) is not None
            comma = comma or _COMMA.fullmatch(cell) is not None
        self._decimal = None if point == comma else ("." if point else ",")
        self.refused: dict[str, int] = {}

    def read(self, cell: str, unit: str, metric: str) -> float | None:
        base, factor = _UNITS.get(unit, (unit, 1.0))
        head, slash, tail = unit.partition("/")
        if slash and unit not in _UNITS and head in _UNITS:
            base, factor = f"{_UNITS[head][0]}/{tail}", _UNITS[head][1]
        try:
            value = self._value(cell, whole=base in _WHOLE and factor == 1.0)
        except ValueError:  # several decimal points, or digits that do not form a number
            value = None
        if value is None or not math.isfinite(value * factor):
            self.refused[metric] = self.refused.get(metric, 0) + 1
            return None
        return value * factor

    def _value(self, cell: str, *, whole: bool) -> float | None:
        if _PLAIN.fullmatch(cell) or _SCIENTIFIC.fullmatch(cell):
            return float(cell)
        decimal = self._decimal
        if decimal is None and _POINT.fullmatch(cell):
            decimal = "."
        elif decimal is None and _COMMA.fullmatch(cell):
            decimal = ","
        if decimal is None:
            return float(re.sub(r"[.,]", "", cell)) if whole and _DOUBTFUL.fullmatch(cell) else None
        group = "," if decimal == "." else "."
        return float(cell.replace(group, "").replace(decimal, "."))


def _is_number(cell: str) -> bool:
    return re.fullmatch(r"-?\d[\d.,]*([eE][+-]?\d+)?", cell) is not None


def _wide(header: list[str], body: list[list[str]]) -> NcuPage:
    column = {name: index for index, name in enumerate(header)}
    units = body[0] if body and not body[0][column["ID"]] else [""] * len(header)
    launches = [row for row in body if _ID.fullmatch(row[column["ID"]])]
    fixed = {index for name, index in column.items() if "__" not in name}
    values = [index for index in range(len(header)) if index not in fixed]
    numbers = _Numbers(row[i] for row in launches for i in values)
    kernels = []
    for row in launches:
        metrics, texts = {}, {}
        for i in values:
            cell = row[i].strip()
            if cell in _NOTHING:
                continue
            if not _is_number(cell):
                texts[header[i]] = cell
                continue
            value = numbers.read(cell, units[i], header[i])
            if value is not None:
                metrics[header[i]] = value
        kernels.append(_kernel(row, column, metrics, texts))
    return NcuPage(tuple(kernels), numbers.refused)


def _long(header: list[str], body: list[list[str]]) -> NcuPage:
    column = {name: index for index, name in enumerate(header)}
    missing = [f"Metric {what}" for what in ("Unit", "Value") if f"Metric {what}" not in column]
    if missing:
        raise TraceError(f"This table of Nsight Compute has no column {missing[0]}.", "Print it with --page raw.")
    name_at, unit_at, value_at = (column[f"Metric {what}"] for what in ("Name", "Unit", "Value"))
    numbers = _Numbers(row[value_at] for row in body)
    kernels: dict[str, NcuKernel] = {}
    for row in body:
        key, cell, metric = row[column["ID"]], row[value_at].strip(), row[name_at]
        if not _ID.fullmatch(key):
            continue
        if key not in kernels:
            kernels[key] = _kernel(row, column, {}, {})
        if cell in _NOTHING or not metric:
            continue
        if not _is_number(cell):
            kernels[key].texts[metric] = cell
            continue
        value = numbers.read(cell, row[unit_at], metric)
        if value is not None:
            kernels[key].metrics[metric] = value
    return NcuPage(tuple(kernels.values()), numbers.refused)


def _quoted(text: str) -> Iterator[str]:
    """Yield the texts between a quote and the next one that ends a word, in linear time."""
    at = text.find('"')
    while at >= 0:
        closing = _CLOSING.search(text, at + 1)
        if closing is None:
            return
        yield text[at + 1 : closing.start()]
        at = text.find('"', closing.end())


def _kernel(row: list[str], column: dict[str, int], metrics: dict[str, float], texts: dict[str, str]) -> NcuKernel:
    def cell(name: str) -> str:
        return row[column[name]] if name in column else ""

    ranges = [row[i] for name, i in column.items() if "_Range:" in name]
    messages = [_MESSAGE.search(part) for text in ranges for part in _quoted(text[:_MOST_RANGE_TEXT])]
    return NcuKernel(
        number=int(row[column["ID"]]),
        name=cell("Kernel Name"),
        ranges=tuple(dict.fromkeys(match.group(1) for match in messages if match)),
        grid=cell("Grid Size"),
        block=cell("Block Size"),
        metrics=metrics,
        texts=texts,
    )


@dataclass(frozen=True)
class Counter:
    """One of our counters: a weighted sum of those of its ncu metrics that the GPU has."""

    column: str
    metrics: tuple[tuple[str, float], ...]


def _counter(column: str, *metrics: str) -> Counter:
    return Counter(column, tuple((metric, 1.0) for metric in metrics))


_FP32 = tuple(
    (f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum", flops)
    for op, flops in (("ffma", 2.0), ("fadd", 1.0), ("fmul", 1.0))
)
TRAFFIC_COUNTERS = (
    _counter("time_ns", "gpu__time_duration.sum"),
    _counter("dram_read_bytes", "dram__bytes_read.sum"),
    _counter("dram_write_bytes", "dram__bytes_write.sum"),
)
DETAIL_COUNTERS = (
    *TRAFFIC_COUNTERS,
    _counter("l2_bytes", "lts__t_bytes.sum"),
    _counter("l2_sectors", "lts__t_sectors.sum"),
    _counter("l2_hit_sectors", "lts__t_sectors_lookup_hit.sum"),
    _counter("l1_bytes", "l1tex__t_bytes.sum"),
    _counter(
        "tensor_flops",
        "sm__ops_path_tensor_src_fp16.sum", "sm__ops_path_tensor_src_bf16_dst_fp32.sum",
        "sm__ops_path_tensor_src_tf32_dst_fp32.sum", "sm__ops_path_tensor_src_fp8.sum",
        "sm__ops_path_tensor_src_fp16_dst_fp16.sum", "sm__ops_path_tensor_src_fp16_dst_fp32.sum",
        "sm__ops_path_tensor_src_fp4_dst_fp32.sum", "sm__ops_path_tensor_src_fp4_fp6_fp8_dst_fp16.sum",
        "sm__ops_path_tensor_src_fp4_fp6_fp8_dst_fp32.sum",
    ),
    Counter("fp32_flops", _FP32),
    _counter("l2_pct", "lts__throughput.avg.pct_of_peak_sustained_elapsed"),
    _counter("sm_pct", "sm__throughput.avg.pct_of_peak_sustained_elapsed"),
    _counter("tensor_pct", "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"),
    _counter("fma_pct", "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_elapsed"),
    _counter("occupancy_pct", "sm__warps_active.avg.pct_of_peak_sustained_active"),
    _counter("occupancy_limit_pct", "sm__maximum_warps_per_active_cycle_pct"),
    _counter("registers", "launch__registers_per_thread"),
    _counter("shared_bytes", "launch__shared_mem_per_block"),
    _counter("waves", "launch__waves_per_multiprocessor"),
    _counter("blocks_by_registers", "launch__occupancy_limit_registers"),
    _counter("blocks_by_shared", "launch__occupancy_limit_shared_mem"),
    _counter("blocks_by_warps", "launch__occupancy_limit_warps"),
    _counter("blocks_by_slots", "launch__occupancy_limit_blocks"),
    _counter("clock_hz", "gpc__cycles_elapsed.avg.per_second"),
)  # fmt: skip
_PASSES, _GPU = "profiler__replayer_passes", "device__attribute_display_name"


def metrics_of(run: Run) -> list[str]:
    """Return the metrics to ask ncu for."""
    wanted = TRAFFIC_COUNTERS if run is Run.TRAFFIC else DETAIL_COUNTERS
    return [metric for counter in wanted for metric, _ in counter.metrics]


def count_kernels(
    run: Run,
    named: Sequence[NcuKernel],
    symbols: Sequence[NcuKernel],
    ranges: Sequence[str] | None,
    more: Sequence[str] = (),
) -> list[CountedKernel]:
    """Return the launches inside `ranges`; all launches, without a range, for None.

    named, symbols: the same report with demangled and with mangled names of kernels.
    more: further metrics to keep, by ncu's name or its beginning.
    """
    known, position, counted = set(ranges or ()), defaultdict[str, int](int), []
    by_number = {kernel.number: kernel.name for kernel in symbols}
    for kernel in named:
        inside = "" if ranges is None else next((name for name in kernel.ranges if name in known), None)
        if inside is None:
            continue
        extra = {name: value for name, value in kernel.metrics.items() if more and name.startswith(tuple(more))}
        passes = kernel.metrics.get(_PASSES)
        counted.append(
            CountedKernel(
                run=run,
                range=inside,
                position=position[inside],
                name=kernel.name,
                symbol=by_number.get(kernel.number, ""),
                grid=kernel.grid,
                block=kernel.block,
                gpu=kernel.texts.get(_GPU, ""),
                passes=None if passes is None else int(passes),
                values=values_of(kernel),
                more=extra,
            )
        )
        position[inside] += 1
    return counted


def values_of(kernel: NcuKernel) -> dict[str, float | None]:
    """Return our counters of one launch; None where no metric of a counter has a value."""
    values: dict[str, float | None] = {}
    for counter in DETAIL_COUNTERS:
        parts = [weight * kernel.metrics[name] for name, weight in counter.metrics if name in kernel.metrics]
        values[counter.column] = sum(parts) if parts else None
    return values
