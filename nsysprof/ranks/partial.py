"""Define the partial result of one trace or of ten thousand: bounded, picklable, and mergeable."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nsysprof.analysis.replay.execution_graph import ExecutionGraph
from nsysprof.analysis.steps.find_steps import Steps
from nsysprof.errors import MissingToolError
from nsysprof.files.plain_file import VERSION, decode_json, encode_json, open_whole
from nsysprof.ranks import distributions
from nsysprof.ranks.collective_waits.collectives import Collectives
from nsysprof.ranks.distributions import Distributions, Key
from nsysprof.ranks.identity import RankSource
from nsysprof.ranks.job_facts import JobFacts
from nsysprof.ranks.rank_energy import COLUMNS, power_of
from nsysprof.ranks.replay.joined_graph import RankGraph
from nsysprof.results.column_registry.csv_table import to_records
from nsysprof.results.column_registry.rank_columns import RANK_RANGES
from nsysprof.results.rank_results import Lanes, RankRow

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
