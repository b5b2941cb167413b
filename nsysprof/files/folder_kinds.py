"""Define the kinds of result folders that commands write."""

from __future__ import annotations

from nsysprof.files.folder_state import FolderKind

_TABLES = ("kernels.csv", "ranges.csv", "range_kernels.csv", "api.csv", "memops.csv", "results.csv")
_PICTURES = ("roofline", "traffic", "timeline", "kernels", "vram", "heatmap", "memory")
_REPORT = ("report.md", "report.html", "report.json")
_REPORTS = (*_REPORT, *(f"{name}.{suffix}" for name in _PICTURES for suffix in ("png", "svg")))

ANALYSIS = FolderKind("analysis", "an", "summary.json", ("summary.json", *_TABLES, *_REPORTS))
RANKS = FolderKind(
    "analysis of several traces",
    "an",
    "ranks.json",
    ("ranks.json", "ranks-in-progress", "parts", "*_over_ranks.csv", "*rank*.csv", "stragglers.csv", *_REPORTS),
    is_slow=True,
    goes_on=True,
)
_OF_COMPARISON = ("compare.json", *_REPORT, "ratios.png", "parts.png")
COMPARISON = FolderKind("comparison", "a", "compare.json", _OF_COMPARISON)
_OF_BENCH = "samples.json results.csv latency.png throughput.png scaling.png winners.png winners.csv"
BENCH = FolderKind(
    "bench",
    "a",
    "samples.json",
    (*_OF_BENCH.split(), *_REPORT, "results.json", "policy.json", "logs", ".work"),
    unless="manifest.json",
    is_slow=True,
)
SIDES = FolderKind(
    "bench of two sides",
    "a",
    "baseline",
    ("baseline", "candidate", *COMPARISON.files),
    unless="manifest.json",
    is_slow=True,
)
PROGRAM_BENCH = FolderKind(
    "bench of a program",
    "a",
    "runs.json",
    ("runs.json", "comparison.json", *_REPORT, "logs"),
    unless="manifest.json",
    is_slow=True,
)
OPTIMIZATION = FolderKind(
    "optimization",
    "an",
    "optimize.json",
    ("optimize.json", *_REPORT, "capture", "analysis", "tune", "bench-*"),
    is_slow=True,
    goes_on=True,
)
_OF_CAPTURE = "manifest.json samples.json results.csv nsys.sqlite nsys.nsys-rep torch.sqlite counters.csv logs .work"
CAPTURE = FolderKind(
    "capture",
    "a",
    "manifest.json",
    (
        *_OF_CAPTURE.split(),
        "ranks",
        "ncu*.ncu-rep",
        "nsys.memory-*.pickle",
        "nsys.stacks-*.json",
        "nsys.attention-*.json",
        "recording-*",
        "processes",
        "held.json",
        "first_recording.sqlite",
        "ranges_alone.sqlite",
        "recording_cost.json",
        "power.csv",
        "nsys.qdstrm",
    ),
    is_slow=True,
    with_paths=("manifest.json",),
)
EXPORT = FolderKind(
    "export",
    "an",
    "gpu.parquet",
    tuple(f"{name}.parquet" for name in ("gpu", "api", "ranges", "memory", "gpu_metrics")),
)
