"""Read a capture folder's own files into a CaptureRecord, and join the counters of ncu with it and with its trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from nsysprof.analysis.traffic.join_counters import (
    counted_table,
    fill_counters,
    of_this_gpu,
    with_kernel_counters,
    with_launch_counters,
)
from nsysprof.analysis.traffic.roofline import fill_roofline
from nsysprof.attention.case import check_case_row
from nsysprof.attention.shape import SHAPE_COLUMNS
from nsysprof.errors import MissingToolError, TraceError
from nsysprof.notes import make_note
from nsysprof.nsight.ncu import count_kernels, parse_ncu_csv, read_report
from nsysprof.nsight.run_tool import NCU, find_tool
from nsysprof.results.analysis import Analysis, CaptureRecord
from nsysprof.results.checks import MissingSource
from nsysprof.results.column_registry.case_columns import CAPTURE_RESULTS, FIRST_CAPTURE_RESULTS
from nsysprof.results.column_registry.csv_table import set_dtypes
from nsysprof.results.kernel_counters import CountedKernel, CountedLaunches, Run
from nsysprof.results.roof import roof_of
from nsysprof.trace.table_readers.native_stacks import read_symbols


def read_results(folder: Path) -> pd.DataFrame:
    """Return results.csv with the registered columns and types; unknown values are NA.

    A capture of a program has no cases, so it has no rows. Raises TraceError.
    """
    path = folder / "results.csv"
    try:
        if path.exists() and not path.is_file():
            raise ValueError("it is not a plain file")
        if not path.exists() and _is_of_program(folder):
            table = pd.DataFrame(columns=list(CAPTURE_RESULTS.names), dtype="string")
        else:
            table = pd.read_csv(path, dtype="string", keep_default_na=False, na_values=[""])
    except (OSError, ValueError) as error:
        raise TraceError(f"{path} cannot be read: {error}.", "Capture again, or give the trace alone.") from error
    if "kv_heads" not in table and "heads" in table:  # a capture by version 0.1.0
        table["kv_heads"] = table["heads"]
    if "kv_seq" not in table and "seq" in table:
        table = table.assign(kv_seq=table["seq"], mask="none", layout="bhsd")
    missing = [column for column in FIRST_CAPTURE_RESULTS if column not in table]
    if missing:
        raise TraceError(f"{path} lacks the columns {', '.join(missing)}.", "It was not written by nsysprof capture.")
    try:
        table = set_dtypes(table.reindex(columns=list(CAPTURE_RESULTS.names)), CAPTURE_RESULTS)
        _check_cases(table)
    except (ValueError, OverflowError) as error:
        raise TraceError(f"{path} cannot be read: {error}.", "Capture again, or give the trace alone.") from error
    return table


def _check_cases(table: pd.DataFrame) -> None:
    """Raise ValueError, with row and column, where a row does not identify its case."""
    rows = table[["backend", *SHAPE_COLUMNS]].astype(object)
    for number, row in enumerate(rows.where(rows.notna(), None).to_dict("records"), start=1):
        try:
            check_case_row(row)
        except ValueError as error:
            raise ValueError(f"row {number}, {error}") from error


def _is_of_program(folder: Path) -> bool:
    from nsysprof.capture.manifest import MANIFEST, read_manifest

    return (folder / MANIFEST).exists() and read_manifest(folder).program is not None


def read_record(folder: Path) -> CaptureRecord | None:
    """Return the capture's manifest and results; None for a folder without a manifest."""
    from nsysprof.capture.manifest import MANIFEST, read_manifest

    if not (folder / MANIFEST).exists():
        return None
    manifest = read_manifest(folder)
    return CaptureRecord(
        title=folder.resolve().name,
        results=read_results(folder),
        environment=manifest.environment,
        method=manifest.method,
        notes=tuple(manifest.notes),
        missing=tuple(manifest.missing),
        steps=tuple(
            {"name": s.name, "argv": list(s.argv), "exit_code": s.exit_code, "duration_ns": s.duration_ns}
            for s in manifest.steps
        ),
    )


def complete_analysis(
    analysis: Analysis,
    record: CaptureRecord | None,
    trace: Path,
    *,
    folder: Path,
    report: Path | None = None,
    ncu: Path | None = None,
    launches: Sequence[CountedLaunches] = (),
) -> tuple[Analysis, CaptureRecord | None]:
    """Return a trace's analysis and a capture's record, each completed from the other and from the counters.

    folder: the capture folder.
    report: the user's own counters, used instead of the capture's.
    ncu: the program that reads the report.
    launches: those of a program, of which `capture --counters` counted some.
    """
    if record is not None:
        from nsysprof.analysis.comparison.rank_cases import fill_results

        record = replace(record, results=fill_results(record.results, analysis))
    if record is None and report is None:
        return analysis, None
    if report is None and launches:
        analysis = with_launch_counters(analysis, launches)
        return join_counters(analysis, record, [], trace, foreign=False)
    ranges = [str(name) for name in analysis.ranges["range"].unique()]
    counted = read_counted(None if record is None else folder, report, ranges, ncu)
    return join_counters(analysis, record, counted, trace, foreign=report is not None)


def read_counted(folder: Path | None, report: Path | None, ranges: list[str], ncu: Path | None) -> list[CountedKernel]:
    """Return the launches in a capture folder's counters.csv, or in the user's own report.

    Raises TraceError for what cannot be read, and MissingToolError where a .ncu-rep needs an ncu.
    """
    from nsysprof.capture.collect import COUNTERS, read_counters

    if report is not None:
        return _read_report(report, ranges, ncu)
    path = None if folder is None else folder / COUNTERS
    return read_counters(path) if path is not None and path.is_file() else []


def _read_report(report: Path, ranges: list[str], ncu: Path | None) -> list[CountedKernel]:
    """Return the launches of the user's own report for both runs, since it does not say in which state caches were."""
    if report.suffix == ".csv":
        try:
            named = symbols = parse_ncu_csv(report.read_text(encoding="utf-8", errors="replace"))
        except OSError as error:
            raise TraceError(f"{report} cannot be read: {error.strerror}.", "Check the path.") from error
    else:
        found = find_tool(NCU, ncu)
        if found is None:
            raise MissingToolError(
                f"{report.name} can only be read by ncu, which was not found.",
                "Name one with --ncu or NSYSPROF_NCU, or give the .csv that ncu --import REPORT --csv --page "
                "raw prints.",
            )
        if not report.is_file():
            raise TraceError(f"{report} does not exist.", "Check the path.")
        named, symbols = (read_report(found, report, names) for names in ("demangled", "mangled"))
    counted = [
        replace(kernel, passes=None)
        for run in Run
        for kernel in count_kernels(run, named.kernels, symbols.kernels, ranges)
    ]
    if not counted:
        raise TraceError(
            f"None of the {len(named.kernels)} kernels in {report.name} is in a range of the trace.",
            "Run ncu --nvtx on the same program that was traced.",
        )
    return counted


def name_kernels(folder: Path, trace: Path) -> None:
    """Write the trace's name of each kernel into a capture's counters.csv, so that they stay joined when shared."""
    from nsysprof.capture.collect import COUNTERS, read_counters, write_counters

    if not (folder / COUNTERS).is_file():
        return
    names = {symbol: name for name, symbols in read_symbols(trace).items() for symbol in symbols}
    kernels = read_counters(folder / COUNTERS)
    write_counters(folder, [replace(kernel, kernel=names.get(kernel.symbol, kernel.kernel)) for kernel in kernels])


def join_counters(
    analysis: Analysis, record: CaptureRecord | None, kernels: list[CountedKernel], trace: Path | None, *, foreign: bool
) -> tuple[Analysis, CaptureRecord | None]:
    """Return the tables with counters, and notes on what does not fit together.

    trace: the SQLite file; None where there is none.
    """
    from nsysprof.analysis.comparison.rank_cases import rank_cases

    environment = record.environment if record is not None else {}
    known = environment.get("gpu_name") or (analysis.devices[0].name if len(analysis.devices) == 1 else None)
    every = counted_table(kernels)
    counted, notes = of_this_gpu(every, known)
    if record is not None and len(counted) < len(every):
        record = replace(record, missing=(*record.missing, MissingSource.COUNTERS_OF_THIS_GPU))
    if foreign and len(counted):
        notes.append(make_note("counters-cache-unknown"))
    if len(counted) and trace is not None:
        analysis, more = with_kernel_counters(analysis, counted, read_symbols(trace))
        notes += more
    if record is not None:
        results, more = fill_counters(record.results, counted)
        on_gpu = environment.get("device") == "cuda"
        results = fill_roofline(results, counted, roof_of(environment), on_gpu=on_gpu)
        record = replace(record, results=results, rankings=rank_cases(results, on_gpu=on_gpu))
        notes += more
    return replace(analysis, notes=(*analysis.notes, *notes)), record
