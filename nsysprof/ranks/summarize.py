"""Summarize one trace into its partial result for an analysis of many traces.

Define the partial result of one trace or of ten thousand: bounded, picklable, and mergeable.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.attribute import Attributed, attribute_ranges, expand
from nsysprof.analysis.attribution.attribute import merge as merge_stretches
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
from nsysprof.analysis.replay.replay import ExecutionGraph
from nsysprof.analysis.steps.find_steps import Steps
from nsysprof.errors import MissingToolError
from nsysprof.files.plain_file import VERSION, decode_json, encode_json, open_whole, scratch_folder
from nsysprof.notes import Note, Severity, make_note
from nsysprof.ranks import distributions
from nsysprof.ranks.collective_waits.collectives import Collectives, find_collectives
from nsysprof.ranks.distributions import Distributions, Key, distribute, merge_all
from nsysprof.ranks.identity import RankSource
from nsysprof.ranks.job_facts import JobFacts, collect_facts
from nsysprof.ranks.job_findings import MOST_REPLAYED, needs_replay
from nsysprof.ranks.overlap import Overlap, innermost_ranges, measure_overlap, own_walls
from nsysprof.ranks.rank_energy import COLUMNS, power_of, rank_energy, read_samples
from nsysprof.ranks.replay.joined_graph import RankGraph, read_rank_graph
from nsysprof.results.allocator_memory import has_ended_for_memory
from nsysprof.results.column_registry.csv_table import to_records
from nsysprof.results.column_registry.rank_columns import RANK_RANGES
from nsysprof.results.power_samples import GpuEnergy
from nsysprof.results.rank_results import Lanes, RankRow
from nsysprof.trace.inputs.resolve_input import identity_of, resolve_input
from nsysprof.trace.open import open_trace
from nsysprof.trace.recorded import Session, read_session
from nsysprof.trace.schema import COPY, FILL, MIGRATION, Bools, Int64s, Ints, Tables
from nsysprof.trace.tables import read_tables

RANGE_COLUMNS = tuple(name for name in RANK_RANGES.names if name != "rank")
PARTS = "parts"
_TEXTS = ("range", "style", "domain")
_COLLECTIVE = tuple(field.name for field in fields(Collectives))
_NO_ENERGY = pd.DataFrame(columns=list(COLUMNS))
_DISTRIBUTION = ("count", "total", "least", "most", "size_bytes", "rounded", "edges", "values", "times")
_OF_STEPS = ("name", "global_pid", "starts_ns", "bounds_ns", "warmup", "found_share")
_OF_RANK = tuple(field.name for field in fields(RankGraph) if field.name not in ("graph", "collectives", "steps"))


@dataclass(frozen=True)
class Partial:
    """The rows and the durations of some traces, with one row per trace in order of position."""

    rows: tuple[RankRow, ...]
    durations: Distributions


@dataclass(frozen=True)
class Detail:
    """What only the final overview needs from one trace. It stays on disk and is not merged."""

    # One row per (range, style, domain), with RANGE_COLUMNS.
    ranges: pd.DataFrame
    collectives: Collectives | None
    lanes: Lanes | None
    # The energy of its boards by range, with the columns of rank_energy.csv but the rank.
    energy: pd.DataFrame = field(default_factory=pd.DataFrame)
    facts: JobFacts = field(default_factory=JobFacts)
    # Its last steps, where a finding about the job's communication may need their replay.
    graph: RankGraph | None = None


@dataclass(frozen=True)
class Leaf:
    """The result of one trace."""

    partial: Partial
    detail: Detail


def merge_partials(partials: Sequence[Partial]) -> Partial:
    """Return several merged into one. The operation is associative and commutative."""
    rows = sorted((row for partial in partials for row in partial.rows), key=lambda row: row.position)
    return Partial(tuple(rows), distributions.merge_all([partial.durations for partial in partials]))


def failed(row: RankRow) -> Leaf:
    """Return the result of a trace that could not be read: only its row."""
    nothing = pd.DataFrame({column: [] for column in RANGE_COLUMNS})
    return Leaf(Partial((row,), distributions.empty()), Detail(nothing, None, None))


@cache
def code_version() -> str:
    """Return nsysprof's version with a digest of its sources. Results made by other code are never merged with ours."""
    return f"{VERSION}+{digest_of_sources(Path(__file__).parents[1])[:12]}"


def digest_of_sources(package: Path) -> str:
    """Return a digest of all code and of the registry of notes in a package, whose texts are part of results."""
    digest = hashlib.sha256()
    for path in sorted(file for file in package.rglob("*") if file.suffix in (".py", ".toml")):
        digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def part_path(source: RankSource, folder: Path) -> Path:
    """Return where the result of this input is stored. Another version of the file or of the code has another path."""
    facts = [str(source.path.resolve()), code_version(), source.position, source.rank, source.world_size, source.host]
    for path in sorted(source.path.iterdir()) if source.path.is_dir() else [source.path, power_of(source.path)]:
        try:
            stat = path.stat()
            facts += [path.name, stat.st_size, stat.st_mtime_ns]
        except OSError:
            facts += [path.name, None, None]
    key = hashlib.sha256(json.dumps(facts).encode("utf-8", "replace")).hexdigest()[:20]
    return folder / PARTS / f"{source.position:06d}-{key}.parquet"


def write_part(leaf: Leaf, path: Path) -> None:
    """Write a result completely or not at all. Raises OutputError."""
    pa, pq = _pyarrow()
    (row,) = leaf.partial.rows
    columns: dict[str, Any] = {"row": encode_json(row).decode()}
    durations, detail = leaf.partial.durations, leaf.detail
    for place, name in enumerate(Key._fields):
        columns[f"key_{name}"] = [key[place] for key in durations.keys]
    columns |= {f"duration_{name}": getattr(durations, name) for name in _DISTRIBUTION}
    columns |= {f"range_{name}": detail.ranges[name].tolist() for name in RANGE_COLUMNS}
    columns["energy"] = json.dumps(to_records(detail.energy))
    columns["facts"] = encode_json(detail.facts).decode()
    if detail.graph is not None:
        columns["graph"] = encode_rank_graph(detail.graph)
    if detail.collectives is not None:
        columns |= {f"collective_{name}": getattr(detail.collectives, name) for name in _COLLECTIVE}
    if detail.lanes is not None:
        columns |= {f"lane_{name}": getattr(detail.lanes, name) for name in Lanes.__annotations__}
    table = pa.table({name: _cell(pa, name, value) for name, value in columns.items()})
    with open_whole(path) as stream:
        # Dictionaries and statistics of one row take longer than what they save.
        pq.write_table(table, stream, compression="lz4", use_dictionary=False, write_statistics=False)


def _cell(pa: Any, name: str, value: Any) -> Any:
    """Return a column with one row. Lists of text get an explicit type, because an empty one does not show it."""
    if isinstance(value, str | int | bytes):
        return pa.array([value])
    text = name.startswith("key_") or name in {f"range_{column}" for column in _TEXTS} or name == "collective_names"
    item = pa.string() if text else None if isinstance(value, np.ndarray) else pa.int64()
    if text:
        value = [entry.encode("utf-8", "replace").decode() for entry in value]
    return pa.ListArray.from_arrays(pa.array([0, len(value)], pa.int32()), pa.array(value, type=item))


def read_part(path: Path) -> Leaf | None:
    """Return the result that write_part wrote; None where the file is missing or damaged."""
    columns = _read(path, None)
    if columns is None:
        return None
    try:
        row = decode_json(columns["row"], RankRow)
        keys = tuple(map(Key._make, zip(*(columns[f"key_{name}"] for name in Key._fields), strict=True)))
        durations = Distributions(keys, *(np.asarray(columns[f"duration_{name}"]) for name in _DISTRIBUTION))
        return Leaf(Partial((row,), durations), _detail(columns))
    except (KeyError, ValueError, TypeError):
        return None


def read_detail(path: Path) -> tuple[RankRow, Detail, dict[Key, int]] | None:
    """Return the row, the detail and the total of each key (ns), without the values.

    Kernels in ranges are left out. Return None where the file is missing or damaged.
    """
    names = ("kind", "name", "range", "style", "domain", "short_name")
    columns = _read(path, [*(f"key_{name}" for name in names), "duration_total"])
    if columns is None:
        return None
    keys = map(Key._make, zip(*(columns[f"key_{name}"] for name in Key._fields), strict=True))
    totals = {
        key: int(total)
        for key, total in zip(keys, columns["duration_total"], strict=True)
        if key.kind != "range_kernel"
    }
    return decode_json(columns["row"], RankRow), _detail(columns), totals


def _detail(columns: dict[str, Any]) -> Detail:
    ranges = pd.DataFrame({name: columns[f"range_{name}"] for name in RANGE_COLUMNS})
    collectives = lanes = None
    if "collective_names" in columns:
        arrays = {name: columns[f"collective_{name}"] for name in _COLLECTIVE}
        collectives = Collectives(**{**arrays, "names": tuple(arrays["names"])})
    if "lane_start_ns" in columns:
        lanes = Lanes(**{name: columns[f"lane_{name}"] for name in Lanes.__annotations__})
    energy = json.loads(columns["energy"])  # of most traces nothing is known
    facts = decode_json(columns["facts"], JobFacts)
    table = pd.DataFrame(energy, columns=list(COLUMNS)) if energy else _NO_ENERGY
    graph = decode_rank_graph(columns["graph"]) if "graph" in columns else None
    return Detail(ranges, collectives, lanes, table, facts, graph)


def _read(path: Path, of_durations: list[str] | None) -> dict[str, Any] | None:
    """Return the cells of the row; None where the file is missing or damaged.

    of_durations: which columns of keys and durations to read; None reads all.
    """
    pa, pq = _pyarrow()
    try:
        file = pq.ParquetFile(path)
        names = [
            name
            for name in file.schema_arrow.names
            if of_durations is None or name in of_durations or not name.startswith(("key_", "duration_"))
        ]
        table = file.read(columns=names, use_threads=False)
        file.close()
    except (OSError, pa.ArrowException):
        return None
    if table.num_rows != 1:
        return None
    cells = {}
    for name in names:
        cell = table.column(name).chunk(0)
        values = cell.values if pa.types.is_list(cell.type) else None
        if values is None:
            cells[name] = cell[0].as_py()
        else:
            text = pa.types.is_string(values.type)
            cells[name] = values.to_pylist() if text else values.to_numpy(zero_copy_only=False)
    return cells


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingToolError(
            "Analyzing several traces at once needs pyarrow, which is not installed.", "pip install 'nsysprof[ranks]'"
        ) from None
    return pa, pq


def encode_rank_graph(rank: RankGraph) -> bytes:
    """Return the graph as bytes."""
    arrays: dict[str, Any] = {
        f"graph.{field.name}": getattr(rank.graph, field.name) for field in fields(ExecutionGraph)
    }
    arrays |= {f"steps.{name}": getattr(rank.steps, name) for name in _OF_STEPS}
    arrays |= {f"rank.{name}": getattr(rank, name) for name in _OF_RANK}
    for name, column in rank.collectives.items():
        values = column.to_numpy()
        arrays[f"collectives.{name}"] = values.astype(str) if values.dtype == object else values
    buffer = BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def decode_rank_graph(data: bytes) -> RankGraph:
    """Return the graph that encode_rank_graph wrote. Raises ValueError or KeyError for other bytes."""
    parts: dict[str, dict[str, Any]] = {"graph": {}, "steps": {}, "rank": {}, "collectives": {}}
    with np.load(BytesIO(data), allow_pickle=False) as stored:
        for key in stored.files:
            part, _, name = key.partition(".")
            value = stored[key]
            parts[part][name] = value if value.ndim else value.item()
    return RankGraph(
        graph=ExecutionGraph(**parts["graph"]),
        collectives=pd.DataFrame(parts["collectives"]),
        steps=Steps(**parts["steps"], loop_ns=None),
        **parts["rank"],
    )


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
