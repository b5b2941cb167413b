"""Compose and write what bench and tune found: latencies, the fastest backends, ceilings, winners and the policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from nsysprof.attention.shape import named_columns, varied_columns
from nsysprof.files.plain_file import VERSION, write_whole
from nsysprof.notes import Note
from nsysprof.report.document import (
    Cell,
    Code,
    Column,
    Figure,
    Lines,
    Notes,
    Paragraph,
    Part,
    Report,
    Section,
    Table,
    Unit,
    clean,
    is_telling,
    join_names,
    latency_text,
    make_table,
    table_of,
    times_as_long,
)
from nsysprof.report.figure_files import figure_paths, write_figures, write_report
from nsysprof.report.figures.benches import (
    describe_bench,
    describe_scaling,
    draw_latency,
    draw_scaling,
    draw_throughput,
)
from nsysprof.report.figures.drawing import can_draw
from nsysprof.report.pages.analysis import figure_sections
from nsysprof.report.pages.cases import Row, facts_table, time_name
from nsysprof.results.column_registry.case_columns import BENCH_RESULTS
from nsysprof.results.column_registry.column import Dtype
from nsysprof.results.column_registry.csv_table import render_csv
from nsysprof.results.roof import MOST_PCT, known
from nsysprof.results.samples import APPROXIMATE
from nsysprof.units import format_rate

_FACTS = (
    "gpu_name", "gpu_count", "driver_version", "cuda_version", "torch_version", "cudnn_loaded_version",
    "cublas_loaded_version", "tf32_matmul", "device", "cpu_model", "os", "python_version", "git_commit",
    "comparable_hash",
)  # fmt: skip
_ABLATION_ROWS = (
    "median [95 %]", "p (Holm), Cliff's delta", "smallest difference that would be told",
    "FLOP/s by formula, of the ceiling", "kernels, DRAM bytes (nsysprof capture, analyze)",
)  # fmt: skip


# The note on a machine that stalls stands first.
_STALLS = "machine-stalls"


@dataclass(frozen=True)
class BenchReport:
    """The content of a bench's report.

    table: one row for each case.
    method: one sentence per line.
    command: the command that measured it.
    self_check: the result of measuring each case against itself, one sentence per line.
    extra: a tuner's sections, which follow the verdicts.
    """

    title: str
    table: pd.DataFrame
    floor_pct: float | None
    floor_pairs: int
    ceilings: Mapping[str, Any]
    environment: Mapping[str, Any]
    notes: Sequence[Note]
    method: Sequence[str]
    command: str
    self_check: Sequence[str] = ()
    extra: Sequence[Section] = ()


def bench_report(bench: BenchReport, figures: Sequence[Figure] = ()) -> Report:
    """Return the report of a bench.

    figures: the figures that were drawn, in order.
    """
    table = bench.table
    verdicts = Lines(verdict_lines(table), is_verdict=True, document_lines=30)
    detail: list[Part] = [
        *sweep_tables(table), ceiling_table(table), Paragraph(_ceilings(bench.ceilings)),
        target_table(table),
    ]  # fmt: skip
    sections = [
        *_stall_sections(bench.notes),
        *bench.extra[:1],
        Section("", (verdicts, Lines(tuple(bench.self_check)))),
        *bench.extra[1:],
        Section("", (latency_table(table), failure_table(table))),
        *figure_sections(figures),
        Section("", tuple(detail), in_terminal=False),
        _ablation(),
        Section("Notes", (_other_notes(bench.notes),)),
        Section("Method", (Lines(tuple(bench.method)),), in_terminal=False),
        _environment(bench),
    ]
    return Report(bench.title, tuple(sections))


def _stall_sections(notes: Sequence[Note]) -> list[Section]:
    """Return the section that says first that the machine stalls; none where it does not."""
    return [
        Section("", (Paragraph(f"{note.text} {note.next_step}", is_warning=True),))
        for note in notes
        if note.code == _STALLS
    ]


def _other_notes(notes: Sequence[Note]) -> Notes:
    return Notes(tuple(note for note in notes if note.code != _STALLS))


def _environment(bench: BenchReport) -> Section:
    facts = [(name, str(bench.environment[name])) for name in _FACTS if bench.environment.get(name) is not None]
    table = facts_table("Environment", [("nsysprof", VERSION), *facts])
    return Section("", (table, Paragraph("Measured by"), Code(bench.command)), in_terminal=False)


def _ceilings(ceilings: Mapping[str, Any]) -> str:
    flops = ceilings.get("flops") or {}
    parts = [f"{dtype} matrix product {format_rate(rate, 'FLOP/s')}" for dtype, rate in flops.items()]
    if ceilings.get("bytes_per_s"):
        parts.append(f"copy {format_rate(ceilings['bytes_per_s'], 'B/s')} (read and written)")
    return f"Ceilings measured on this device: {', '.join(parts)}." if parts else "No ceiling was measured."


def _ablation() -> Section:
    columns = (Column("number"), Column("baseline"), Column("changed"), Column("ratio"))
    rows = [(row, "", "", "") for row in _ABLATION_ROWS]
    parts = (
        Paragraph("Optimisation: NAME"),
        Paragraph("Hypothesis: which limit does it lift, and which number shows that limit?"),
        Paragraph("Change: what differs in the code, and nothing else."),
        make_table("", columns, rows),
        Paragraph("Verdict: faster, slower, a tie or inconclusive, by the rule under Method."),
    )
    return Section("Template for an ablation", parts, in_terminal=False, is_folded=True)


_SWEEPS = (
    ("seq", "Sequence lengths"), ("kv_seq", "Lengths of k and v"), ("batch", "Batch sizes"), ("heads", "Heads"),
    ("head_dim", "Head dimensions"),
)  # fmt: skip
_CSV = "results.csv"
# "far behind": dropped before there were enough blocks for a test.
_SLOWER = ("slower", "far behind")


def median_cell(row: Row, prefix: str = "") -> Cell:
    """Return a median with its interval, unless that says nothing."""
    median, low, high = (known(row[f"{prefix}{part}_ns"]) for part in ("median", "low", "high"))
    if low is not None and high is not None and not is_telling(low, high):
        return Cell(median)
    return Cell(median, low=low, high=high)


def latency_table(table: pd.DataFrame) -> Table:
    """Return one row for each case with its verdict, the best first among cases with equal work."""
    own, other = _named(table)
    on_gpu = bool(table["peak_bytes"].notna().any())
    columns = (
        (Column("case", Unit.NAME), "case"),
        (Column("verdict"), _verdict),
        (Column(f"{time_name(own, on_gpu=on_gpu)} [95 %]", Unit.NS), median_cell),
        (Column(time_name(other, on_gpu=on_gpu), Unit.NS, drop=5), lambda row: known(row.get(other))),
        (Column("as CUDA graph", Unit.NS, drop=2), lambda row: median_cell(row, "graph_")),
        (Column("CV", Unit.PERCENT, drop=4), "cv_pct"),
        (Column("p99 (p95)", Unit.NS, drop=3), lambda row: known(row["p99_ns"]) or known(row["p95_ns"])),
        (Column("samples in blocks", drop=1), _samples_in_blocks),
        (Column("by formula", Unit.FLOPS, drop=7), "flops_per_s"),
        (Column("least bytes", Unit.BYTES_PER_S, drop=8), "bytes_per_s"),
        (Column("peak memory", Unit.BYTES, drop=6), "peak_bytes"),
    )  # fmt: skip
    return table_of("Latency", _in_order(table), columns, source=_CSV, terminal_rows=1000, document_rows=30)


def _samples_in_blocks(row: Row) -> str:
    return f"{known(row['samples']) or 0:.0f} in {known(row['blocks']) or 0:.0f}"


def _named(table: pd.DataFrame) -> tuple[str, str]:
    """Return which column of the named times is the one that was judged, and which the other."""
    is_warm = "warm_ns" in table and bool((table["warm_ns"] == table["median_ns"]).any())
    is_cold = "cold_ns" in table and bool((table["cold_ns"] == table["median_ns"]).any())
    return ("warm_ns", "cold_ns") if is_warm and not is_cold else ("cold_ns", "warm_ns")


def ceiling_table(table: pd.DataFrame) -> Table:
    """Return how much of the device each case uses, relative to what was measured here and to the datasheet."""
    columns = {
        "measured_flops_pct": "of the matrix product here",
        "datasheet_flops_pct": "of the datasheet's FLOP/s",
        "measured_bytes_pct": "of the copy here",
        "datasheet_bytes_pct": "of its bandwidth",
    }
    rows = [(row["case"], *(_flagged(known(row[column])) for column in columns)) for row in _timed(table)]
    titles = (Column("case", Unit.NAME), *(Column(title, Unit.PERCENT) for title in columns.values()))
    return make_table("Share of the ceilings", titles, rows, source=_CSV, terminal_rows=0, document_rows=30)


def sweep_tables(table: pd.DataFrame) -> list[Table]:
    """Return a table for each dimension that the grid varies: latency, work, and work per time along it."""
    varied = varied_columns(table)
    return [_sweep_table(table, name, title) for name, title in _SWEEPS if name in varied and table[name].nunique() > 1]


def _sweep_table(table: pd.DataFrame, column: str, title: str) -> Table:
    others = [name for name in ("backend", *varied_columns(table)) if name != column and table[name].nunique() > 1]
    timed = table[table["median_ns"].notna()].sort_values([*others, column], kind="stable")
    columns = (
        (Column("of", Unit.NAME), lambda row: ", ".join(f"{name}={row[name]}" for name in others) or row["backend"]),
        (Column(column, Unit.COUNT), column),
        (Column("median [95 %]", Unit.NS), median_cell),
        (Column("by formula", Unit.FLOPS), "flops_per_s"),
        (Column("least bytes", Unit.BYTES_PER_S), "bytes_per_s"),
        (Column("sequences", Unit.PER_S), lambda row: row["batch"] / row["median_ns"] * 1e9),
        (Column("tokens", Unit.TOKENS_PER_S), lambda row: row["batch"] / row["median_ns"] * 1e9 * row["seq"]),
    )  # fmt: skip
    title = f"{title} (work differs from row to row)"
    return table_of(title, timed.to_dict("records"), columns, source=_CSV, terminal_rows=0, document_rows=30)


def failure_table(table: pd.DataFrame) -> Table:
    """Return every case that is not ranked, with its reason."""
    failed = table[~table["status"].isin(("ok",))].to_dict("records")
    columns = (
        (Column("case", Unit.NAME), lambda row: row["case"]),
        (Column("status"), lambda row: row["status"]),
        (Column("reason", Unit.PROSE), lambda row: row["reason"]),
    )
    return table_of("Not ranked", failed, columns, source=_CSV, terminal_rows=1000, document_rows=30)


def target_table(table: pd.DataFrame) -> Table:
    """Return what a new kernel must reach for each shape for this bench to call it faster."""
    columns = (
        (Column("fastest of its shape", Unit.NAME), "case"),
        (Column("median [95 %]", Unit.NS), median_cell),
        (Column("beaten below", Unit.NS), lambda row: known(row.get("to_beat_ns"))),
        (Column("by formula", Unit.FLOPS), "flops_per_s"),
        (Column("peak memory", Unit.BYTES), "peak_bytes"),
    )
    fastest = table[(table["rank"] == 1) & table["to_beat_ns"].notna()].to_dict("records")
    return table_of("What must be beaten", fastest, columns, source=_CSV, terminal_rows=0, document_rows=30)


def verdict_lines(table: pd.DataFrame) -> tuple[str, ...]:
    """Return one sentence for each shape."""
    varied = named_columns(table)
    lines = []
    ranked = table[table["rank"].notna()]
    for key, members in ranked.groupby([*varied_columns(table)], sort=False, dropna=False):
        shape = dict(zip(varied_columns(table), key, strict=True))
        label = ", ".join(f"{'S' if name == 'seq' else name}={shape[name]}" for name in varied)
        rows = members.sort_values("rank").to_dict("records")
        lines.append(f"{label}: {_sentence(rows)}.")
    return (*lines, *_without_interval(table))


def _without_interval(table: pd.DataFrame) -> tuple[str, ...]:
    """Return why intervals are not shown, and what to do about it."""
    hidden = [row for row in _timed(table) if known(row["low_ns"]) is not None]
    hidden = [row for row in hidden if not is_telling(row["low_ns"], row["high_ns"])]
    if not hidden:
        return ()
    processes = min(int(row["processes"]) for row in hidden)
    one = "one latency" if len(hidden) == 1 else f"{len(hidden)} latencies"
    differ = "blocks of one process differ" if processes == 1 else f"{processes} processes differ"
    return (
        f"The interval of {one} is not shown: {differ} so much that it says nothing. Give --processes "
        f"{processes + 1} or more.",
    )


def _sentence(rows: Sequence[Row]) -> str:
    best, rest = rows[0], rows[1:]
    if best["verdict"] == "inconclusive":
        return f"{best['backend']} takes {latency_text(best['median_ns'], None, None)}; no verdict, as samples stall"
    tied = [row["backend"] for row in rest if row["verdict"] == "tie"]
    unknown = [row["backend"] for row in rest if row["verdict"] in ("inconclusive", "too few processes")]
    slower = [row for row in rest if row["verdict"] in _SLOWER]
    if best.get("approximate"):
        best = {**best, "backend": f"{best['backend']} (approximate, error {best['largest_error']:.2g})"}
    text = f"{best['backend']} takes {latency_text(best['median_ns'], known(best['low_ns']), known(best['high_ns']))}"
    if tied:
        text += f", a tie with {join_names(tied)}"
    if unknown:
        text += f"; not yet told from {join_names(unknown)}"
    if slower:
        text += f"; {times_as_long([(row['backend'], row['against_best']) for row in slower])}"
    return text


def _verdict(row: Row) -> Cell:
    if row["status"] != "ok":
        return Cell(str(row["status"]))
    if row["verdict"] == APPROXIMATE:
        error = known(row["largest_error"])
        return Cell("approximate" if error is None else f"approximate, error {error:.2g}")
    if row["verdict"] in _SLOWER:
        return Cell(known(row["against_best"]), Unit.FACTOR, remark="as long")
    return Cell(str(row["verdict"]))


def _flagged(percent: float | None) -> Cell:
    return Cell(percent, remark="(impossible: see notes)" if percent is not None and percent > MOST_PCT else "")


def _timed(table: pd.DataFrame) -> list[Row]:
    rows: list[Row] = []
    rows.extend(table[table["median_ns"].notna()].to_dict("records"))
    return rows


def _in_order(table: pd.DataFrame) -> list[Row]:
    columns = varied_columns(table)
    keys = list(zip(*(table[column].astype(str) for column in columns), strict=True))
    places = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    order = [places[key] for key in keys]
    rows: list[Row] = []
    ranked = table.assign(_shape=order, _rank=pd.to_numeric(table["rank"]).fillna(1e9))
    rows.extend(ranked.sort_values(["_shape", "_rank"], kind="stable").to_dict("records"))
    return rows


def write_bench(report: BenchReport, folder: Path, *, figures: bool) -> list[Path]:
    """Write results.csv, figures and reports into `folder` and return their paths. Raises OutputError."""
    written = [write_whole(folder / "results.csv", results_csv(report.table))]
    pictures = _write_figures(report, folder) if figures and can_draw() else []
    document = bench_report(report, pictures)
    return [*written, *figure_paths(pictures, folder), *write_report(document, folder)]


def results_csv(table: pd.DataFrame) -> bytes:
    """Return results.csv: one row per case, each text on one line."""
    safe = table.copy()
    for column in safe.columns.intersection(list(BENCH_RESULTS.of_dtype(Dtype.TEXT))):
        safe[column] = [clean(str(cell)) for cell in safe[column]]
    return render_csv(safe, BENCH_RESULTS)


def _write_figures(report: BenchReport, folder: Path) -> list[Figure]:

    return write_figures(
        {
            "latency": lambda: draw_latency(report.table),
            "throughput": lambda: draw_throughput(report.table, report.ceilings),
            "scaling": lambda: draw_scaling(report.table),
        },
        {
            "latency": lambda: describe_bench(report.table, "median_ns", "Median latency", "ns"),
            "throughput": lambda: describe_bench(report.table, "flops_per_s", "Rate by formula", "FLOP/s"),
            "scaling": lambda: describe_scaling(report.table),
        },
        folder,
    )


_HOUR_NS = 3600e9
_WINNERS_CSV = "winners.csv"


def tuning_report(sections: Sequence[Section], notes: Sequence[Note]) -> Report:
    """Return what the terminal shows of a tuning."""
    return Report("tune", (*_stall_sections(notes), *sections, Section("", (_other_notes(notes),))))


def tuning_sections(
    winners: pd.DataFrame,
    insights: Sequence[str],
    *,
    price: float | None,
    policy: str | None,
    budget_note: str,
    figures: Sequence[Figure] = (),
) -> list[Section]:
    """Return the part of a tuning's report that follows the verdicts.

    price: the price of an hour of the GPU; None for a report without costs.
    policy: the name of the policy's file; None where there is none.
    budget_note: why the search ended; empty where it was completed.
    """
    lines = (*insights, *([budget_note] if budget_note else []))
    sections = [
        Section("What follows", (Lines(lines, terminal_lines=1000),)),
        Section("", (*figures, winner_table(winners))),
    ]
    if price is not None:
        sections.append(Section("", (cost_table(winners, price),), in_terminal=False))
    return [*sections, *([] if policy is None else [_how_to_use(policy)])]


def _how_to_use(policy: str) -> Section:
    code = (
        "import nsysprof\nimport torch.nn.functional as F\n\n"
        f'with nsysprof.policy("{policy}"):\n'
        "    out = F.scaled_dot_product_attention(q, k, v, is_causal=True)"
    )
    text = (
        "It holds for these shapes on this GPU with these versions; anything else is left to torch. A shorter sequence "
        "is other work and not a speedup: see `nsysprof help tune`."
    )
    return Section("How to use it", (Code(code, "python"), Paragraph(text)), in_terminal=False)


def winner_table(winners: pd.DataFrame) -> Table:
    """Return the best backend of each shape, and by how much."""
    columns = (
        *_shape_columns(winners),
        (Column("best", Unit.NAME), lambda row: str(row["backend"]) or None),
        (Column("verdict"), _winner_verdict),
        (Column("median [95 %]", Unit.NS, drop=2), median_cell),
        (Column("next slower", Unit.RATIO, drop=1), lambda row: Cell(known(row["margin"]), remark=row["runner_up"])),
        (Column("auto over best", Unit.RATIO, drop=3), "over_auto"),
    )  # fmt: skip
    title, rows = "Best backend by shape", winners.to_dict("records")
    return table_of(title, rows, columns, source=_WINNERS_CSV, terminal_rows=1000, document_rows=64)


def _shape_columns(winners: pd.DataFrame) -> list[tuple[Column, Callable[[Row], str]]]:
    return [(Column(name), partial(_text, name)) for name in named_columns(winners)]


def _text(name: str, row: Row) -> str:
    return str(row[name])


def cost_table(winners: pd.DataFrame, price: float) -> Table:
    """Return what a million calls cost with the best backend and with torch's own choice.

    price: the price of an hour of the GPU.
    """

    def cost(row: Row) -> float:
        return float(price * row["median_ns"] * 1e6 / _HOUR_NS)

    def cost_of_auto(row: Row) -> float | None:
        return None if known(row["over_auto"]) is None else cost(row) * row["over_auto"]

    columns = (
        *_shape_columns(winners),
        (Column("best", Unit.NAME), partial(_text, "backend")),
        (Column("a million calls", Unit.PRICE), cost),
        (Column("with auto", Unit.PRICE), cost_of_auto),
    )
    title = f"Cost at {price:g} per hour of GPU, the GPU kept busy"
    timed = winners[winners["median_ns"].notna()].to_dict("records")
    return table_of(title, timed, columns, source=_WINNERS_CSV, document_rows=30)


def _winner_verdict(row: dict[Any, Any]) -> str:
    words = {"tie": "tie with", "inconclusive": "not told from"}
    verdict = str(row["verdict"])
    return f"{words[verdict]} {row['tied']}" if verdict in words else verdict
