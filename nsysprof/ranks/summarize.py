"""Summarize one trace into its partial result for an analysis of many traces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.attribute import expand
from nsysprof.analysis.attribution.attribute import merge as merge_stretches
from nsysprof.analysis.attribution.attributed_ranges import Attributed, attribute_ranges
from nsysprof.analysis.attribution.duration_statistics import sum_by
from nsysprof.analysis.attribution.intervals import kernels_and_graphs, union_ns
from nsysprof.analysis.attribution.library_ranges import LIBRARY_DOMAINS
from nsysprof.analysis.kernel_names.variant_names import (
    FILL_NAME,
    Names,
    call_names,
    copy_name,
    kernel_names,
    plain_call_name,
)
from nsysprof.analysis.overview.trace_overview import (
    Attribution,
    Outline,
    attribute,
    count_totals,
    judge,
    live_metrics,
    outline,
)
from nsysprof.files.scratch_folder import scratch_folder
from nsysprof.notes import Note, Severity, make_note
from nsysprof.ranks.collective_waits.collectives import find_collectives
from nsysprof.ranks.distributions import Distributions, Key, distribute, merge_all
from nsysprof.ranks.identity import RankSource
from nsysprof.ranks.job_facts import JobFacts, collect_facts
from nsysprof.ranks.job_findings import MOST_REPLAYED, needs_replay
from nsysprof.ranks.overlap import Overlap, innermost_ranges, measure_overlap, own_walls
from nsysprof.ranks.partial import RANGE_COLUMNS, Detail, Leaf, Partial
from nsysprof.ranks.rank_energy import rank_energy, read_samples
from nsysprof.ranks.replay.joined_graph import RankGraph, read_rank_graph
from nsysprof.results.allocator_memory import has_ended_for_memory
from nsysprof.results.power_samples import GpuEnergy
from nsysprof.results.rank_results import RankRow
from nsysprof.trace.inputs.resolve_input import identity_of, resolve_input
from nsysprof.trace.open import open_trace
from nsysprof.trace.recorded import Session, read_session
from nsysprof.trace.schema import COPY, FILL, MIGRATION, Bools, Int64s, Ints, Tables
from nsysprof.trace.tables import read_tables

# If a trace has more range names than this, the largest ranges are kept and the rest become one row.
MOST_RANGES = 2000
OTHER_RANGES = "(other ranges)"
# Thirteen days (ns). No kernel, call or range takes longer, and sums over ten thousand ranks still fit in 64 bits.
_LONGEST_NS = 2**50
# Up to this many pairs (range, kernel), a dense table is faster than sorting the pairs.
_MOST_CELLS = 1 << 22


def summarize_rank(source: RankSource) -> Leaf:
    """Read one trace and return its result. Raises NsysprofError for what is not a readable trace."""
    with scratch_folder() as scratch:
        path = resolve_input(source.path, source.nsys, scratch)
        identity = identity_of(source.path, path)
        with open_trace(path, identity, one_thread=source.one_thread) as trace:
            session = read_session(trace)
            tables = read_tables(trace)
            return _leaf(source, session, tables, read_samples(source.path, session.start_utc_ns))


def _leaf(
    source: RankSource, session: Session, tables: Tables, samples: tuple[Sequence[GpuEnergy], tuple[Note, ...]]
) -> Leaf:
    attribution = attribute(tables)
    names = kernel_names(tables)
    whole = outline(tables, judge(tables, attribution), count_totals(tables, attribution), live_metrics(tables))
    attributed, grouping_note = _bounded(tables, attribution)
    is_comm = (names.category == "communication")[names.numbers(tables.work.variant[: tables.work.kernels])]
    overlap = measure_overlap(tables.work, is_comm)
    row = _row(source, session, tables, whole, overlap)
    power, unreadable = samples
    facts = collect_facts(tables, names, attribution, overlap, source.link_bytes_per_s)
    out_of_memory = (make_note("rank-out-of-memory"),) if has_ended_for_memory(source.path) else ()
    row = replace(row, notes=(*row.notes, *out_of_memory, *grouping_note, *unreadable, *facts.notes))
    detail = Detail(
        _range_rows(tables, tables.launch, attributed, is_comm, overlap),
        find_collectives(tables, is_comm, names, overlap),
        overlap.lanes,
        rank_energy(tables, attribution, names, power),
        facts,
        _graph(source, tables, attribution, facts),
    )
    return Leaf(Partial((row,), _durations(tables, names, attributed)), detail)


def _graph(source: RankSource, tables: Tables, attribution: Attribution, facts: JobFacts) -> RankGraph | None:
    """Return the last steps of a rank for a replay of the job; None where no finding needs it."""
    if source.position >= MOST_REPLAYED or not needs_replay(facts):
        return None
    return read_rank_graph(tables, attribution.attributed.ranges)


def _bounded(tables: Tables, attribution: Attribution) -> tuple[Attributed, tuple[Note, ...]]:
    """Return ranges of at most MOST_RANGES names, those with the most wall time; all others share one name."""
    if attribution.attributed.keys["name"].nunique() <= MOST_RANGES:
        return attribution.attributed, ()
    ranges = attribution.attributed.ranges
    wall = (ranges["end_ns"] - ranges["start_ns"]).groupby(ranges["name"]).sum()
    kept = wall.sort_values(ascending=False, kind="stable").index[:MOST_RANGES]
    ranges = ranges.assign(name=ranges["name"].where(ranges["name"].isin(kept), OTHER_RANGES))
    note = make_note("many-range-names", names=len(wall), most=MOST_RANGES)
    return attribute_ranges(tables, ranges), (note,)


def _row(source: RankSource, session: Session, tables: Tables, whole: Outline, overlap: Overlap) -> RankRow:
    totals, info = whole.totals, whole.trace
    split = totals.kernel_count is not None  # where graphs are recorded as wholes, their kernels are unknown
    busy = totals.gpu_busy_ns is not None
    rank = source.rank if source.rank is not None else session.rank
    peaks = totals.peak_vram_bytes
    start, end = overlap.first_ns, overlap.last_ns
    return RankRow(
        position=source.position,
        source=info.path_name,
        rank=rank,
        rank_from="manifest" if source.rank is not None else "" if rank is None else session.rank_from,
        world_size=source.world_size if source.world_size is not None else session.world_size,
        host=source.host or session.host,
        sha256=info.sha256,
        bytes=info.bytes,
        nsys_version=info.nsys_version,
        gpus=tuple(sorted({device.name for device in whole.devices})),
        session_start_utc_ns=session.start_utc_ns,
        first_ns=start,
        last_ns=end,
        span_ns=None if start is None or end is None or not busy else end - start,
        gpu_busy_ns=totals.gpu_busy_ns,
        idle_ns=overlap.idle_ns if busy else None,
        compute_ns=overlap.compute_ns if split else None,
        comm_ns=overlap.comm_ns if split else None,
        overlap_ns=overlap.overlap_ns if split else None,
        exposed_comm_ns=overlap.comm_ns - overlap.overlap_ns if split else None,
        kernel_count=totals.kernel_count,
        kernel_total_ns=totals.kernel_total_ns,
        launch_count=totals.launch_count,
        api_total_ns=None if tables.calls is None else int(tables.calls.duration_ns.sum(dtype=np.int64)),
        memcpy_bytes=None if totals.memcpy_bytes is None else sum(totals.memcpy_bytes.values()),
        memset_bytes=totals.memset_bytes,
        peak_vram_bytes=None if not peaks else max(peaks.values()),
        notes=tuple(note for note in whole.notes if note.severity != Severity.INFO),
    )


def _durations(tables: Tables, names: Names, attributed: Attributed) -> Distributions:
    work, ranges, keys = tables.work, attributed.ranges, attributed.keys
    kernels = [
        Key("kernel", name=str(name), short_name=str(short))
        for name, short in zip(names.texts, names.short, strict=True)
    ]
    number, duration = names.numbers(work.variant[: work.kernels]), work.duration_ns[: work.kernels]
    shown = kernels_and_graphs(work)
    parts = [_distribute(kernels, names.numbers(shown[1]), shown[0])]
    groups = [Key("range", *key) for key in keys.itertuples(index=False, name=None)]
    group_of = ranges["group"].to_numpy(dtype=np.int64) if len(ranges) else np.zeros(0, np.int64)
    wall = (ranges["end_ns"] - ranges["start_ns"]).to_numpy(dtype=np.int64)
    parts += [_distribute(groups, group_of, wall), _range_kernels(attributed, kernels, groups, number, duration)]
    if tables.calls is not None:
        calls = call_names(tables, plain_call_name)
        api = [Key("api", name=str(name)) for name in calls.texts]
        parts.append(_distribute(api, calls.numbers(tables.calls.variant), tables.calls.duration_ns))
    return merge_all([*parts, _memops(tables)])


def _distribute(keys: list[Key], number: Ints, value: Ints, size_bytes: Ints | None = None) -> Distributions:
    possible = value < _LONGEST_NS
    if possible.all():
        return distribute(keys, number, value, size_bytes)
    return distribute(keys, number[possible], value[possible], None if size_bytes is None else size_bytes[possible])


def _range_kernels(
    attributed: Attributed, kernels: list[Key], groups: list[Key], number: Ints, duration: Ints
) -> Distributions:
    """Return the durations of kernels by range, as `analyze` counts them.

    Nested ranges are included, and a kernel counts once where a range contains another one of its name.
    """
    group_of = attributed.ranges["group"].to_numpy(dtype=np.int64) if len(groups) else np.zeros(0, np.int64)
    owners: list[Int64s] = [np.zeros(0, np.int64)]
    values: list[Int64s] = [np.zeros(0, np.int64)]
    for segments in attributed.segments.values():
        group, low, high = merge_stretches(group_of[segments.instance], segments.low, segments.high)
        which, position = expand(low, high)
        row = segments.order[position]
        is_kernel = row < len(number)
        launched = row[is_kernel]
        owners.append(group[which[is_kernel]] * len(kernels) + number[launched])
        values.append(duration[launched].astype(np.int64))
    used, owner = _number(np.concatenate(owners), len(groups) * len(kernels))
    keys = []
    for pair in used.tolist():
        kernel_key = kernels[pair % len(kernels)]
        group_key = groups[pair // len(kernels)]
        keys.append(group_key._replace(kind="range_kernel", name=kernel_key.name, short_name=kernel_key.short_name))
    return _distribute(keys, owner, np.concatenate(values))


def _number(codes: Int64s, limit: int) -> tuple[Int64s, Int64s]:
    """Return what numpy.unique with return_inverse does, for codes below `limit`, without sorting small ones."""
    if limit > _MOST_CELLS:
        used, number = np.unique(codes, return_inverse=True)
        return used, number
    present = np.bincount(codes, minlength=1) > 0
    return np.flatnonzero(present), (np.cumsum(present) - 1)[codes]


def _memops(tables: Tables) -> Distributions:
    work = tables.work
    others = slice(work.kernels, None)
    kind = work.kinds(others)
    chosen = (kind == COPY) | (kind == FILL) | (kind == MIGRATION)
    code = np.where(kind == FILL, -1, work.copy_kind)[chosen]
    codes, number = np.unique(code, return_inverse=True)
    keys = [Key("memop", name=FILL_NAME if copied == -1 else copy_name(copied)) for copied in codes.tolist()]
    return _distribute(keys, number, work.duration_ns[others][chosen].astype(np.int64), work.bytes[chosen])


def _range_rows(tables: Tables, launch: Ints, attributed: Attributed, is_comm: Bools, overlap: Overlap) -> pd.DataFrame:
    """Return what each range itself is responsible for: its own work, and its wall time without nested ranges.

    Work belongs only to its innermost range.
    """
    ranges, keys, work = attributed.ranges, attributed.keys, tables.work
    groups = len(keys)
    group_of = ranges["group"].to_numpy(dtype=np.int64) if len(ranges) else np.zeros(0, np.int64)
    owner = innermost_ranges(tables, launch, ranges)
    group = np.where(owner >= 0, group_of[owner], -1) if len(group_of) else np.full(len(work), -1)
    table = keys.rename(columns={"name": "range"}).assign(instances=np.bincount(group_of, minlength=groups))
    wall = (ranges["end_ns"] - ranges["start_ns"]).to_numpy(dtype=np.int64)
    table["wall_ns"] = sum_by(group_of, wall, groups)
    table["host_ns"] = sum_by(group_of, own_walls(ranges), groups)
    kernels = np.arange(work.kernels)
    computes = kernels[~is_comm & (group[: work.kernels] >= 0)]
    table["compute_ns"] = _union_by(tables, computes, group, groups)
    talks = group[overlap.comm_rows] >= 0
    rows = overlap.comm_rows[talks]
    table["comm_ns"] = sum_by(group[rows], work.duration_ns[rows], groups)
    table["exposed_comm_ns"] = sum_by(group[rows], overlap.exposed_of[talks], groups)
    mine = group[: work.kernels]
    table["kernel_count"] = np.bincount(mine[mine >= 0], minlength=groups)
    of_library = table["domain"].isin(LIBRARY_DOMAINS)
    return table.loc[~of_library, list(RANGE_COLUMNS)].reset_index(drop=True)


def _union_by(tables: Tables, rows: Int64s, group: Int64s, groups: int) -> Int64s:
    total = np.zeros(groups, np.int64)
    if len(rows):
        work = tables.work
        devices, device = np.unique(work.device_of, return_inverse=True)
        cell = group[rows] * len(devices) + device[work.variant[rows]]
        length = union_ns(work.start_ns[rows], work.duration_ns[rows], cell)
        np.add.at(total, np.arange(len(length)) // len(devices), length)
    return total
