from collections.abc import Sequence
from typing import Literal

from nsysprof.api.frames import open_trace as open_trace
from nsysprof.api.frames import read_calls as read_calls
from nsysprof.api.frames import read_copies as read_copies
from nsysprof.api.frames import read_fills as read_fills
from nsysprof.api.frames import read_kernels as read_kernels
from nsysprof.api.frames import read_memory as read_memory
from nsysprof.api.frames import read_ranges as read_ranges
from nsysprof.api.frames import summarize as summarize
from nsysprof.api.policy import PolicyWarning as PolicyWarning
from nsysprof.api.policy import policy as policy
from nsysprof.api.use_cases import Source
from nsysprof.app.analyze import TraceResult
from nsysprof.app.bundle import BundleResult
from nsysprof.app.compare import CompareResult
from nsysprof.app.export import ExportResult
from nsysprof.app.inputs.grid import Grid as Grid
from nsysprof.app.measuring.bench import BenchResult
from nsysprof.app.measuring.bench_program import SidesResult
from nsysprof.app.progress import Progress as Progress
from nsysprof.app.trace_analysis.analyze_ranks import RanksResult
from nsysprof.app.trace_analysis.analyze_snapshot import CompareSnapshotsResult, SnapshotResult
from nsysprof.app.tune import TuneResult
from nsysprof.errors import NsysprofError as NsysprofError
from nsysprof.results.analysis import Analysis as Analysis
from nsysprof.trace.open import Trace as Trace

__version__: str

def analyze(
    *inputs: Source,
    counters: Source | None = ...,
    range: str | None = ...,
    step: int | None = ...,
    unfold: bool = ...,
    policy: Source | None = ...,
    kernel_names: Source | None = ...,
    workers: int | None = ...,
    scheduler: str | None = ...,
    tls_ca_file: Source | None = ...,
    tls_cert: Source | None = ...,
    tls_key: Source | None = ...,
    worker_memory: str = ...,
    by_order: bool = ...,
    launched_only: bool = ...,
    nsys: Source | None = ...,
    ncu: Source | None = ...,
    out: Source | None = ...,
    force: bool = ...,
    figures: bool = ...,
    svg: bool = ...,
    progress: Progress = ...,
) -> TraceResult | RanksResult | SnapshotResult: ...
def compare(
    baseline: Source | Sequence[Source],
    candidate: Source | Sequence[Source],
    *,
    fail_on: str = ...,
    margin_pct: float | None = ...,
    floor_pct: float | None = ...,
    ignore_conditions: bool = ...,
    launched_only: bool = ...,
    nsys: Source | None = ...,
    out: Source | None = ...,
    force: bool = ...,
    markdown: Source | None = ...,
    junit: Source | None = ...,
    figures: bool = ...,
    progress: Progress = ...,
) -> CompareResult | CompareSnapshotsResult: ...
def bench(
    grid: Grid,
    *,
    processes: int = ...,
    rounds: int = ...,
    samples: int = ...,
    sample_seconds: float = ...,
    warmup_seconds: float = ...,
    seed: int | None = ...,
    sustained: bool = ...,
    locked_clock_mhz: int | None = ...,
    flush: bool = ...,
    graph: Literal["auto", "always", "never"] = ...,
    check: bool = ...,
    allow_error: float = ...,
    device: Literal["auto", "cuda", "cpu"] = ...,
    case_timeout_s: float = ...,
    self_check: bool = ...,
    copies: int = ...,
    out: Source | None = ...,
    force: bool = ...,
    db: Source | None = ...,
    figures: bool = ...,
    progress: Progress = ...,
) -> BenchResult: ...
def tune(
    grid: Grid,
    *,
    source: Source | None = ...,
    search: Literal["grid", "axes"] = ...,
    budget_s: float = ...,
    blocks: int = ...,
    samples: int = ...,
    warmup_seconds: float = ...,
    seed: int | None = ...,
    flush: bool = ...,
    check: bool = ...,
    allow_error: float = ...,
    device: Literal["auto", "cuda", "cpu"] = ...,
    case_timeout_s: float = ...,
    out: Source | None = ...,
    force: bool = ...,
    resume: bool = ...,
    gpu_hour_price: float | None = ...,
    db: Source | None = ...,
    figures: bool = ...,
    progress: Progress = ...,
) -> TuneResult: ...
def export_trace(
    source: Source,
    *,
    perfetto: Source | None = ...,
    chrome: Source | None = ...,
    parquet: Source | None = ...,
    nsys: Source | None = ...,
    force: bool = ...,
    progress: Progress = ...,
) -> ExportResult: ...
def write_bundle(
    source: Source,
    *,
    out: Source | None = ...,
    force: bool = ...,
    keep_names: bool = ...,
    ranges: Sequence[str] = ...,
    max_bytes: int = ...,
    show: bool = ...,
    nsys: Source | None = ...,
    progress: Progress = ...,
) -> BundleResult: ...
def bench_sides(
    grid: Grid,
    baseline: str,
    candidate: str,
    *,
    turns: int | None = ...,
    fail_on: str = ...,
    margin_pct: float | None = ...,
    rounds: int = ...,
    samples: int = ...,
    sample_seconds: float = ...,
    warmup_seconds: float = ...,
    seed: int | None = ...,
    sustained: bool = ...,
    locked_clock_mhz: int | None = ...,
    flush: bool = ...,
    graph: Literal["auto", "always", "never"] = ...,
    check: bool = ...,
    allow_error: float = ...,
    device: Literal["auto", "cuda", "cpu"] = ...,
    case_timeout_s: float = ...,
    out: Source | None = ...,
    force: bool = ...,
    figures: bool = ...,
    progress: Progress = ...,
) -> SidesResult: ...
