"""Compose the report of `analyze` about many traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nsysprof.files.written_by import VERSION
from nsysprof.report.document import Chart, Figure, Lines, Notes, Paragraph, Report, Section
from nsysprof.report.formats.timeline.ranks_timeline import ALT, HINT
from nsysprof.report.pages.analysis import figure_sections
from nsysprof.report.pages.method import facts_table
from nsysprof.report.sections.ranks_tables import (
    api_table,
    clock_table,
    energy_table,
    headline,
    kernel_table,
    memop_table,
    range_table,
    rank_table,
    straggler_table,
)
from nsysprof.results.rank_results import (
    MOST_RESIDUAL_NS,
    OUTLIER_ALPHA,
    OUTLIER_PCT,
    OUTLIER_RANKS,
    STRAGGLER_ALPHA,
    STRAGGLER_COST_PCT,
    RanksAnalysis,
)
from nsysprof.units import format_ns

_METHOD = (
    "Kernels, calls, copies and ranges are counted in each trace as nsysprof analyze does it. Their durations are "
    "merged as counts of values, so that quantiles are of all ranks' instances, and not of the ranks' quantiles.",
    "compute: when a kernel ran that is not NCCL's; exposed: when one of NCCL's ran and no other; idle: neither kernel "
    "nor copy, between a device's first and last kernel. Unions by device, added over devices. Time in an NCCL kernel "
    "includes waiting for other ranks.",
    "A range's own time is the time of the work whose innermost range it is; work of threads without ranges "
    "(autograd's) counts for the range that began last in their process. Its host time excludes nested ranges.",
    "Straggler: a rank without whose delay the job would take at least "
    f"{STRAGGLER_COST_PCT:g} % less. The collectives are replayed as recorded, and with this rank like the typical "
    "other one; the difference is the cost. It must exceed what the other ranks cost in part after part of the job "
    f"(t-test, error {100 * STRAGGLER_ALPHA:g} % shared by all ranks). The warm-up, at least a "
    "sixteenth of the job, is not judged. The interval of the cost covers what differs from step to step; it is too "
    "narrow where a rank's deviations last over several steps. What the others waited is the time from the middle "
    "rank's begin to its begin, added over the collectives in which it came last.",
    "imbalance: the largest of the ranks' totals against their mean. Outlier: by Rosner's test at "
    f"{100 * OUTLIER_ALPHA:g} %, shared by the compared quantities, and {OUTLIER_PCT:g} % from the usual rank (the "
    f"lower median), among at least {OUTLIER_RANKS} ranks.",
    "Clocks: ranks known to be of one host by their sessions' starts, others by the median difference of the ends of "
    f"matching AllReduce, AllGather and ReduceScatter kernels, refused above {format_ns(MOST_RESIDUAL_NS)} of median "
    "residual.",
)


def ranks_report(
    found: RanksAnalysis, figures: Sequence[Figure] = (), *, timeline: Mapping[str, Any] | None = None
) -> Report:
    """Return the report of many traces.

    figures: the figures that were drawn, in order.
    timeline: the result of ranks_timeline_data; None for a report without an interactive timeline.
    """
    chart = [] if timeline is None else [Section("Timeline", (Chart(timeline, ALT, HINT),), in_terminal=False)]
    tables = (
        range_table(found), kernel_table(found), *filter(None, [energy_table(found)]), api_table(found),
        memop_table(found), clock_table(found),
    )  # fmt: skip
    read = f"{len(found.read)} of {len(found.rows)} traces were read."
    sections = [
        Section("", (Lines(headline(found), is_verdict=True), straggler_table(found), rank_table(found))),
        *chart,
        *figure_sections(figures),
        Section("", tables),
        Section("Notes", (Notes(found.notes),)),
        Section("", (Paragraph(read),), in_terminal=False),
        Section("Method", (Lines(_METHOD),), in_terminal=False),
        Section("", (facts_table("Environment", _environment(found)),), in_terminal=False),
    ]
    return Report(f"{len(found.read)} ranks", tuple(sections))


def _environment(found: RanksAnalysis) -> list[tuple[str, str]]:
    read = found.read
    facts = [
        ("nsysprof", VERSION),
        ("GPUs", ", ".join(sorted({gpu for row in read for gpu in row.gpus}))),
        ("nsys", ", ".join(sorted({row.nsys_version or "unknown" for row in read}))),
        ("ranks from", ", ".join(sorted({row.rank_from for row in found.rows}))),
    ]
    return facts + [(str(key), str(fact)) for key, fact in found.engine.items()]
