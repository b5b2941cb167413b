"""Make the tables of the energy that the boards of a job used: by rank and range, and over ranks."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.caused_work import find_caused
from nsysprof.analysis.attribution.work_stretches import OrderedWork
from nsysprof.analysis.kernel_names.variant_names import Names
from nsysprof.analysis.overview.trace_overview import Attribution
from nsysprof.analysis.ranges.instances import RangeEvidence, measure_instances
from nsysprof.analysis.ranges.range_traffic import energy_table
from nsysprof.analysis.steps.find_steps import find_steps, settle_steps
from nsysprof.analysis.traffic.energy import by_device
from nsysprof.errors import TraceError
from nsysprof.notes import Note, make_note
from nsysprof.results.column_registry.csv_table import empty_table
from nsysprof.results.column_registry.rank_columns import ENERGY_OVER_RANKS, RANK_ENERGY
from nsysprof.results.power_samples import POWER_COLUMNS, POWER_FILE, GpuEnergy, power_beside
from nsysprof.trace.schema import Tables

# The columns of a rank's own table: its rank is not known before all traces were read.
COLUMNS: tuple[str, ...] = tuple(name for name in RANK_ENERGY.names if name != "rank")
SHARED = "several ranks used the board"
UNKNOWN = "it is unknown for a rank"
_KEYS = ["range", "style", "domain"]
_LARGEST_BYTES = 512 << 20
_LARGEST = 2**62


def read_samples(source: Path, start_ns: int | None) -> tuple[Sequence[GpuEnergy], tuple[Note, ...]]:
    """Return the energy samples of a rank's boards, or a note where they cannot be read.

    source: the rank's trace, or its folder.
    start_ns: when the clock of its session began (ns since 1970); None where the trace does not say so.
    """
    path = power_of(source)
    if start_ns is None or not path.is_file():
        return (), ()
    try:
        return parse_power(path, start_ns), ()
    except TraceError as error:
        return (), (make_note("power-unreadable", reason=error.text),)


def rank_energy(tables: Tables, attribution: Attribution, names: Names, power: Sequence[GpuEnergy]) -> pd.DataFrame:
    """Return the energy of each board on which a rank worked, by range, as `analyze` of its trace alone tells it.

    power: what the boards' counters said.
    """
    boards = by_device(power, tables.devices)
    if not boards:
        return pd.DataFrame({name: [] for name in COLUMNS})
    attributed = settle_steps(tables, attribution.attributed, find_steps(tables, attribution.attributed.ranges))
    caused = find_caused(tables, attributed.ranges, attributed.structure)
    evidence = RangeEvidence(
        tables,
        attributed,
        names,
        attribution.memory,
        attribution.replays,
        attribution.launch_calls,
        None,
        caused,
        boards,
    )
    ordered = {style: OrderedWork(tables.work, segments.order) for style, segments in attributed.segments.items()}
    instances = measure_instances(ordered, attributed.segments, len(attributed.ranges))
    table = energy_table(evidence, instances.first_ns, instances.last_ns)
    return table.assign(gpu=[boards[number].uuid for number in table["device_id"]])[list(COLUMNS)]


def energy_over_ranks(by_rank: pd.DataFrame) -> pd.DataFrame:
    """Return one row per range: the energy of all boards together, the whole traces first, then the most energy.

    The sum is unknown where the energy of one rank is, and where several ranks used a board, because each of them has
    all that the board used.

    by_rank: the tables of all ranks, with their rank.
    """
    if not len(by_rank):
        return empty_table(ENERGY_OVER_RANKS)
    is_shared = by_rank.groupby("gpu")["rank"].nunique().max() > 1
    named = by_rank.assign(**{name: by_rank[name].fillna("") for name in _KEYS})
    is_whole = by_rank["range"].isna().to_numpy(dtype=bool)
    rows = []
    for (whole, *key), some in named.groupby([is_whole, *_KEYS], sort=False):
        why = SHARED if is_shared else _why_unknown(some)
        energy, error = (np.nan if why else float(some[name].sum()) for name in ("energy_j", "error_j"))
        power = some["mean_w"].to_numpy(dtype=float)
        most = None if np.isnan(power).all() else int(np.nanargmax(power))
        rows.append(
            {
                **dict(zip(_KEYS, [None] * 3 if whole else key, strict=True)),
                "ranks": some["rank"].nunique(),
                "boards": some["gpu"].nunique(),
                "instances": int(some["instances"].sum()),
                "energy_j": energy,
                "error_j": error,
                "board_least_w": np.nan if most is None else float(np.nanmin(power)),
                "board_most_w": np.nan if most is None else float(power[most]),
                "most_rank": None if most is None else int(some["rank"].iloc[most]),
                "reason": why,
            }
        )
    table = pd.DataFrame(rows, columns=list(ENERGY_OVER_RANKS.names))
    order = np.lexsort((-table["energy_j"].fillna(-1.0).to_numpy(dtype=float), table["range"].notna()))
    return table.iloc[order].reset_index(drop=True).astype({"most_rank": "Int64"})


def _why_unknown(some: pd.DataFrame) -> str:
    """Return why a sum over ranks is unknown: the reason that all of them have, or that one's is; "" if it is known."""
    missing = some["energy_j"].isna()
    if not missing.any():
        return ""
    reasons = set(some["reason"].fillna(""))
    return str(reasons.pop()) if missing.all() and len(reasons) == 1 else UNKNOWN


def power_of(source: Path) -> Path:
    """Return where the energy samples of a capture folder are, or those beside the trace of a rank."""
    return source / POWER_FILE if source.is_dir() else power_beside(source)


def parse_power(path: Path, start_ns: int) -> Sequence[GpuEnergy]:
    """Return the samples in a file, one entry per GPU. Raises TraceError for a damaged file.

    start_ns: when the clock of the session began (ns since 1970).
    """
    damaged = TraceError(f"{path} is damaged: it is not a table of energy.", "Remove it, and analyze again.")
    samples_of: dict[str, list[tuple[int, int]]] = {}
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise damaged
        with path.open(encoding="ascii", newline="") as file:
            rows = csv.reader(file)
            if tuple(next(rows, ())) != POWER_COLUMNS:
                raise damaged
            for at, gpu, energy in rows:
                if not (0 <= int(at) < _LARGEST and 0 <= int(energy) < _LARGEST and len(gpu) < 100):
                    raise damaged
                samples_of.setdefault(gpu, []).append((int(at) - start_ns, int(energy)))
    except (ValueError, csv.Error, UnicodeError) as error:
        raise damaged from error
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror}.", "Check its permissions.") from error
    series = []
    for index, (gpu, samples) in enumerate(samples_of.items()):
        table = np.array(samples, dtype=np.int64)
        if (np.diff(table, axis=0) < 0).any():  # the driver was reloaded, or the clock was set back
            raise damaged
        kept = np.concatenate([[True], np.diff(table[:, 0]) > 0])
        series.append(GpuEnergy(gpu, index, table[kept, 0], table[kept, 1]))
    return series
