"""Read from an analysis folder the few numbers that the list of `view` shows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from nsysprof.errors import NsysprofError
from nsysprof.files.json_file import read_json
from nsysprof.report.formats.html import ViewFinding

# How many findings of each trace the list shows.
_FIRST_FINDINGS = 3
_LARGEST_BYTES = 1 << 26
T = TypeVar("T")


class SummaryDevice(msgspec.Struct):
    """The fields to read about a device; null is unknown."""

    gpu_span_ns: int | None = None
    gpu_busy_ns: int | None = None


class SummaryTotals(msgspec.Struct):
    """The fields to read about the totals; null is unknown."""

    kernel_count: int | None = None


class SummaryFile(msgspec.Struct):
    """The fields to read from summary.json."""

    devices: list[SummaryDevice] = []
    totals: SummaryTotals = msgspec.field(default_factory=SummaryTotals)


class ListedFinding(msgspec.Struct):
    """The fields to read about a finding."""

    code: str
    range: str
    saving_ns: int
    per: str
    text: str


class FindingsFile(msgspec.Struct):
    """The fields to read from findings.json."""

    findings: list[ListedFinding] | None = None


class ListedRank(msgspec.Struct):
    """The fields to read about a rank; null is unknown. A rank that could not be read has no kernels."""

    kernel_count: int | None = None


class ListedStraggler(msgspec.Struct):
    """The fields to read about a rank that delays the others, and about one range in which it is late."""

    rank: int
    cost_ns: int | None = None
    range: str | None = None


class RanksFile(msgspec.Struct):
    """The fields to read from ranks.json."""

    ranks: list[ListedRank] = []
    stragglers: list[ListedStraggler] = []


@dataclass(frozen=True)
class FolderOverview:
    """What the list shows of a folder.

    busy_pct: the share of their spans in which the GPUs were busy (percent); None is unknown.
    """

    busy_pct: float | None = None
    kernels: int | None = None
    findings: tuple[ViewFinding, ...] = ()


def read_overview(folder: Path | None) -> FolderOverview:
    """Return the overview of an analysis folder. For any other or damaged folder, everything is unknown."""
    if folder is None:
        return FolderOverview()
    try:
        if (folder / "ranks.json").is_file():
            return _of_ranks(_read(folder / "ranks.json", RanksFile))
        summary = _read(folder / "summary.json", SummaryFile)
        found = _read(folder / "findings.json", FindingsFile).findings or []
    except NsysprofError:
        return FolderOverview()
    first = tuple(ViewFinding(each.code, each.range, each.saving_ns, each.per, each.text) for each in found)
    return FolderOverview(_busy_pct(summary), summary.totals.kernel_count, first[:_FIRST_FINDINGS])


def _of_ranks(found: RanksFile) -> FolderOverview:
    """Return the kernels of all ranks, and what each straggler costs the job."""
    counts = [rank.kernel_count for rank in found.ranks if rank.kernel_count is not None]
    first = {straggler.rank: straggler for straggler in reversed(found.stragglers)}
    listed = tuple(
        ViewFinding(
            "straggler", f"rank {rank}", one.cost_ns, "job", f"It falls behind in {one.range}." if one.range else ""
        )
        for rank, one in sorted(first.items())
        if one.cost_ns is not None
    )
    return FolderOverview(None, sum(counts) if counts else None, listed[:_FIRST_FINDINGS])


def _busy_pct(summary: SummaryFile) -> float | None:
    spans, busy = 0, 0
    for device in summary.devices:
        if device.gpu_span_ns is None or device.gpu_busy_ns is None:
            return None
        spans, busy = spans + device.gpu_span_ns, busy + device.gpu_busy_ns
    return 100 * busy / spans if spans > 0 else None


def _read(path: Path, type_: type[T]) -> T:
    return read_json(path, type_, kind="a file of an analysis", advice="", largest_bytes=_LARGEST_BYTES)
