"""Cut what was read and attributed of a trace down to one part of it, so that all stages count that part alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from nsysprof.analysis.attribution.attribute import Segments
from nsysprof.analysis.attribution.attributed_ranges import Attributed, keep_ranges
from nsysprof.analysis.overview.trace_overview import Attribution
from nsysprof.analysis.parts.find_part import Part
from nsysprof.trace.schema import Bools, Calls, Int64s, Rows, Tables, Work


def cut_tables(tables: Tables, part: Part) -> Tables:
    """Return the tables with the work and the calls of the part alone. Ranges and events of memory stay."""
    calls, kept = tables.calls, np.flatnonzero(part.calls)
    syncs = tables.syncs
    number = new_rows(part.calls)
    if syncs is not None:
        syncs = syncs.assign(call=number[syncs["call"].to_numpy(dtype=np.int64)])
    return replace(
        tables,
        work=_cut_work(tables.work, part.work),
        calls=None if calls is None else _cut_calls(calls, kept),
        launch=number[tables.launch[part.work]].astype(np.int32),
        syncs=syncs,
    )


def _cut_calls(calls: Calls, kept: Int64s) -> Calls:
    return replace(
        calls, start_ns=calls.start_ns[kept], duration_ns=calls.duration_ns[kept], variant=calls.variant[kept]
    )


def _cut_work(work: Work, kept: Bools) -> Work:
    late, in_graph = kept[work.kernels :], work.in_graph_of[work.variant]
    return replace(
        work,
        start_ns=work.start_ns[kept],
        duration_ns=work.duration_ns[kept],
        variant=work.variant[kept],
        bytes=work.bytes[late],
        copy_kind=work.copy_kind[late],
        host_kind=work.host_kind[late],
        graph_node=work.graph_node[kept[in_graph]],
        kernels=int(kept[: work.kernels].sum()),
    )


def cut_attribution(found: Attribution, part: Part) -> Attribution:
    """Return what ranges launched, for the ranges, calls and work of the part alone."""
    calls, number = part.calls, new_rows(part.calls)
    launched = found.launch_calls
    return replace(
        found,
        launches=found.launches[calls],
        launching=found.launching[calls],
        launch_calls=replace(
            launched, launches=launched.launches[calls], replays=launched.replays[calls], lost=launched.lost[calls]
        ),
        replays=tuple(number[rows[calls[rows]]] for rows in found.replays),
        attributed=_cut_attributed(found.attributed, part),
    )


def _cut_attributed(attributed: Attributed, part: Part) -> Attributed:
    kept = keep_ranges(attributed, part.ranges, attributed.keys["name"].tolist())
    number = new_rows(part.work)
    segments: dict[str, Segments] = {}
    for style, of_style in kept.segments.items():
        inside = part.work[of_style.order]
        before = np.concatenate(([0], np.cumsum(inside)))
        order: Rows = number[of_style.order[inside]].astype(np.int32)
        segments[style] = Segments(order, of_style.instance, before[of_style.low], before[of_style.high])
    return replace(kept, segments=segments, steady_from=attributed.steady_from)


def new_rows(kept: Bools) -> Any:
    """Return the new number of each row where some are kept; -1 for the others, and for -1."""
    return np.append(np.where(kept, np.cumsum(kept) - 1, -1), -1)
