"""The registry of columns is whole, and the tables that the code makes have its columns in its order."""

import numpy as np
import pandas as pd
import pytest

from nsysprof.analysis.sampling.bench import summarize_bench
from nsysprof.analysis.sampling.tune import find_winners
from nsysprof.attention.shape import Case
from nsysprof.export.parquet import write_parquet
from nsysprof.nsight.ncu import DETAIL_COUNTERS
from nsysprof.results.column_registry.analysis_columns import (
    CAUSES,
    LEDGER,
    PHASES,
    STEPS,
    WORK_CATEGORIES,
    cause_column,
    work_column,
)
from nsysprof.results.column_registry.case_columns import BENCH_RESULTS, COUNTERS, WINNERS
from nsysprof.results.column_registry.column import FILES, SECTIONS, Dtype
from tests.analysis.blocks import make_blocks
from tests.builders.registered_files import find_file
from tests.export.contents import content_of
from tests.report import samples

UNITS = {"", "ns", "B", "%", "FLOP", "FLOP/B", "FLOP/s", "B/s", "Hz", "J", "W"}


@pytest.mark.parametrize("file", FILES.values(), ids=lambda file: f"{file.folder}/{file.name}")
def test_every_column_is_documented_once_and_has_a_known_unit(file):
    names = [column.name for column in file.columns]
    assert len(names) == len(set(names))
    assert file.row.endswith(".")
    for column in file.columns:
        assert column.doc[0].isupper() or column.doc[0] in "`95", column.name
        assert column.doc.endswith("."), column.name
        assert column.unit in UNITS
        assert not (column.unit and column.dtype in (Dtype.TEXT, Dtype.FLAG)), column.name


def test_a_unit_in_a_name_is_the_unit_of_the_column():
    suffixes = {"_ns": "ns", "_bytes": "B", "_pct": "%", "_per_s": "/s", "_hz": "Hz"}
    for file in FILES.values():
        for column in file.columns:
            for suffix, unit in suffixes.items():
                if column.name.endswith(suffix):
                    assert column.unit.endswith(unit), f"{file.name}: {column.name}"


def test_causes_and_kinds_of_work_have_columns_in_their_order():
    causes = [cause_column(cause) for cause in CAUSES]
    assert [column.name for column in SECTIONS["causes"]] == causes
    assert STEPS.names[-len(causes) :] == tuple(causes)
    assert ("outside_ns", *map(work_column, WORK_CATEGORIES), *causes) == LEDGER
    assert PHASES.names[-len(LEDGER) :] == LEDGER


def test_tables_of_bench_and_tune_have_the_registered_columns():
    blocks = make_blocks(np.random.default_rng(1), 6, cell=0, median=50e3)
    table = summarize_bench([Case("flash", seq=512)], ["flash"], blocks, {}, {}).table
    assert tuple(table.columns) == BENCH_RESULTS.names
    assert tuple(find_winners(table).columns) == WINNERS.names


def test_every_counter_of_ncu_is_registered():
    assert tuple(counter.column for counter in DETAIL_COUNTERS) == COUNTERS.names[10:]


def test_tables_of_an_analysis_have_the_registered_columns(tmp_path):
    analysis = samples.analysis(tmp_path)
    for name in ("kernels", "ranges", "range_kernels", "api", "memops"):
        assert tuple(getattr(analysis, name).columns) == find_file("analysis", f"{name}.csv").names


def test_exported_tables_have_the_registered_columns(tmp_path, trace_path):
    write_parquet(content_of(trace_path("sdpa")), tmp_path / "out", lambda _more: None)
    for path in (tmp_path / "out").glob("*.parquet"):
        assert tuple(pd.read_parquet(path).columns) == find_file("export", path.name).names
