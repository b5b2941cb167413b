"""Read and write folder.json, which a run writes last: which kind a folder is, and whether it is complete."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

from nsysprof.errors import OutputError, TraceError
from nsysprof.files.plain_file import VERSION, output_error, read_plain_text, write_whole

FORMAT_VERSION = 1
STATE = "folder.json"
PART, OLD = "nsysprof-part", "nsysprof-old"
# The suffix of a file in a folder that a job has begun and not completed; joint_folder makes it.
MARK = "nsysprof-job"
_TABLES = ("kernels.csv", "ranges.csv", "range_kernels.csv", "api.csv", "memops.csv", "results.csv")
_PICTURES = ("roofline", "traffic", "timeline", "kernels", "vram", "heatmap", "memory")
_REPORT = ("report.md", "report.html", "report.json")
_REPORTS = (*_REPORT, *(f"{name}.{suffix}" for name in _PICTURES for suffix in ("png", "svg")))
_OF_COMPARISON = ("compare.json", *_REPORT, "ratios.png", "parts.png")
_OF_BENCH = "samples.json results.csv latency.png throughput.png scaling.png winners.png winners.csv"
_OF_CAPTURE = "manifest.json samples.json results.csv nsys.sqlite nsys.nsys-rep torch.sqlite counters.csv logs .work"


@dataclass(frozen=True)
class FolderKind:
    """One kind of result folder."""

    # The name in folder.json, such as "analysis", and the article before it.
    name: str
    article: str
    # The file by which a folder of this kind is recognised that has no folder.json.
    proof: str
    # Patterns of what a run writes that was killed before it listed its files. Whatever else is in a folder belongs to
    # the user and stays.
    files: tuple[str, ...]
    # A file that the folder must not have.
    unless: str = ""
    # Whether a run may take hours, so that what it has measured is kept when it fails.
    is_slow: bool = False
    # Whether a run continues what a killed one has left.
    goes_on: bool = False
    # JSON files that name paths inside the folder.
    with_paths: tuple[str, ...] = ()


def check_folder(folder: Path, kind: FolderKind, *, force: bool) -> None:
    """Raise OutputError unless `folder` is free, or holds an older result of this kind and `force` is given."""
    try:
        if folder.exists() and not folder.is_dir():
            raise OutputError(f"{folder} is a file.", "Choose another folder with --out.")
        names = {path.name for path in folder.iterdir()} - {STATE} if folder.is_dir() else set()
    except OSError as error:
        raise output_error(folder, error) from error
    state = read_state(folder)
    names = {name for name in names if not is_leftover_inside(name)}
    if not names or (state is not None and is_barely_begun(state, kind, names)):
        return
    if not _is_ours(folder, kind, state):
        raise OutputError(
            f"{folder} exists, and nsysprof did not write it as {kind.article} {kind.name}.",
            "Choose another folder with --out.",
        )
    if force:
        return
    if state is not None and not state.get("whole"):
        raise OutputError(
            f"{folder} contains {kind.article} {kind.name} that was not finished.",
            "Give --force to replace it, or another folder with --out.",
        )
    raise OutputError(
        f"{folder} already holds {kind.article} {kind.name}.",
        "Give --force to replace it, or another folder with --out.",
    )


def read_state(folder: Path) -> dict[str, object] | None:
    """Return what folder.json says, or None where there is none that can be read."""
    try:
        data = json.loads(read_plain_text(folder / STATE))
    except (OSError, ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def write_state(folder: Path, kind: FolderKind, files: list[str], *, whole: bool) -> None:
    """Write folder.json. Raises OutputError."""
    data = {
        "format_version": FORMAT_VERSION,
        "nsysprof_version": VERSION,
        "kind": kind.name,
        "whole": whole,
        "files": [name for name in files if name != STATE],
    }
    write_whole(folder / STATE, (json.dumps(data, indent=1) + "\n").encode())


def require_whole(folder: Path) -> None:
    """Raise TraceError for a folder whose run was killed or has not ended yet."""
    state = read_state(folder)
    if state is not None and state.get("whole") is not True:
        raise TraceError(
            f"{folder} is incomplete: the run that writes it has not ended, or was killed.",
            "Wait until the run ends, or run it again with --force.",
        )


def find_leftovers(folder: Path) -> list[Path]:
    """Return what killed runs left beside the folder or in it, the newest first."""
    real = real_folder(folder)
    name = re.compile(rf"\.{re.escape(real.name[:100])}\.[0-9a-f]{{16}}\.({PART}|{OLD})")
    try:
        found = [path for path in real.parent.iterdir() if name.fullmatch(path.name)]
        if real.is_dir():
            found += [path for path in real.iterdir() if is_leftover_inside(path.name)]
        return sorted(found, key=lambda path: path.lstat().st_mtime_ns, reverse=True)
    except OSError:
        return []


def is_leftover_inside(name: str) -> bool:
    """Return whether a file in a folder is what a killed run left there."""
    return name.startswith(".") and name.endswith((f".{PART}", f".{MARK}"))


def _is_ours(folder: Path, kind: FolderKind, state: dict[str, object] | None) -> bool:
    if state is not None and "kind" in state:
        return state["kind"] == kind.name
    is_begun = any(path.name.endswith(f".{MARK}") for path in folder.iterdir())
    return (is_begun or (folder / kind.proof).exists()) and not (kind.unless and (folder / kind.unless).exists())


def is_barely_begun(state: dict[str, object], kind: FolderKind, names: set[str]) -> bool:
    """Return whether a run ended before it had anything to keep."""
    return state.get("whole") is False and state.get("kind") == kind.name and kind.proof not in names


def real_folder(folder: Path) -> Path:
    """Return where the folder is, spelled as the user wrote it where that means the same: other machines may see it."""
    if folder.is_symlink() or ".." in folder.parts:
        return Path(os.path.realpath(folder))
    return folder.absolute()


ANALYSIS = FolderKind("analysis", "an", "summary.json", ("summary.json", *_TABLES, *_REPORTS))
RANKS = FolderKind(
    "analysis of several traces",
    "an",
    "ranks.json",
    ("ranks.json", "ranks-in-progress", "parts", "*_over_ranks.csv", "*rank*.csv", "stragglers.csv", *_REPORTS),
    is_slow=True,
    goes_on=True,
)
COMPARISON = FolderKind("comparison", "a", "compare.json", _OF_COMPARISON)
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
        "unrecorded.json",
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
