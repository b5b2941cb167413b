"""Tables that a real ncu printed (H200, 2025.3.1), and what other locales, versions and damage make of them."""

import csv
import io
import math
import random
import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysprof.errors import TraceError
from nsysprof.nsight.ncu import count_kernels, metrics_of, parse_ncu_csv, values_of
from nsysprof.results.kernel_counters import Run

GOLDEN = Path(__file__).parents[1] / "golden"
FLASH, MATH = "RUN::flash::S4096::pass=fwd", "RUN::math::S4096::pass=fwd"


def golden(name):
    return (GOLDEN / name).read_text(encoding="utf-8")


def table(header, units, *rows):
    stream = io.StringIO()
    writer = csv.writer(stream, quoting=csv.QUOTE_ALL)
    for row in (header, units, *rows):
        writer.writerow(row)
    return stream.getvalue()


def one(value, unit):
    text = table(["ID", "Kernel Name", "dram__bytes_read.sum"], ["", "", unit], ["0", "k", value])
    page = parse_ncu_csv(text)
    return page.kernels[0].metrics.get("dram__bytes_read.sum"), page.refused


def test_base_units_and_scaled_ones_are_the_same_numbers():
    base, scaled = parse_ncu_csv(golden("ncu_raw_base.csv")), parse_ncu_csv(golden("ncu_raw_auto.csv"))
    assert len(base.kernels) == len(scaled.kernels) == 11
    assert base.refused == scaled.refused == {}
    for a, b in zip(base.kernels, scaled.kernels, strict=True):
        assert a.ranges == b.ranges
        for name, value in values_of(a).items():
            other = values_of(b)[name]
            same = value is None if other is None else other == pytest.approx(value, rel=1e-5, abs=600)
            assert same, name  # ncu prints six decimals of a Gbyte


def test_what_the_real_table_says():
    kernel = parse_ncu_csv(golden("ncu_raw_base.csv")).kernels[0]
    assert kernel.ranges == (FLASH,)
    assert (kernel.grid, kernel.block) == ("(32, 1, 8)", "(128, 1, 1)")
    values = values_of(kernel)
    assert values["time_ns"] == 117_376
    assert values["dram_read_bytes"] == 12_652_032
    assert values["tensor_flops"] == 17_716_740_096
    metrics = {name.split("_op_")[-1]: value for name, value in kernel.metrics.items() if "_op_f" in name}
    assert metrics["ffma_pred_on.sum"] == 2_424_832
    assert values["fp32_flops"] == 2 * 2_424_832 + metrics["fadd_pred_on.sum"] + metrics["fmul_pred_on.sum"]
    assert values["registers"] == 255
    assert values["shared_bytes"] == 50_176
    assert values["l2_pct"] is None, "not asked for in that report: unknown, and not 0"


def test_one_row_a_metric_between_the_programs_own_words():
    page = parse_ncu_csv(golden("ncu_long.csv"))
    assert [kernel.number for kernel in page.kernels] == [10, 11, 22, 23]
    assert page.kernels[0].metrics["dram__bytes_write.sum"] == 507_339_008
    assert page.kernels[0].ranges == (MATH,)


def test_launches_are_told_by_range_in_order():
    page = parse_ncu_csv(golden("ncu_raw_base.csv"))
    counted = count_kernels(Run.DETAIL, page.kernels, page.kernels, [FLASH, MATH])
    assert [(kernel.range, kernel.position) for kernel in counted] == [(FLASH, 0), (MATH, 0), (MATH, 1)]
    assert counted[0].symbol.startswith("_ZN13pytorch_flash16flash_fwd_kernel")
    assert counted[0].gpu == "NVIDIA H200"
    assert counted[0].passes == 14


def test_every_metric_is_asked_for_once():
    for run in Run:
        assert len(metrics_of(run)) == len(set(metrics_of(run)))
    assert len(metrics_of(Run.TRAFFIC)) == 3, "more would need a second pass, and a second pass has other caches"


@pytest.mark.parametrize(
    ("cell", "unit", "value"),
    [
        ("1,215,000,000.00", "byte", 1_215_000_000.0),
        ("27.595.520", "byte", 27_595_520.0),
        ("27.595.520,25", "byte", 27_595_520.25),
        ("12,66", "Mbyte", 12.66e6),
        ("12.66", "Mbyte", 12.66e6),
        ("1.5", "usecond", 1500.0),
        ("2", "second", 2e9),
        ("3.35", "Gbyte/second", 3.35e9),
        ("1.98", "cycle/nsecond", 1.98e9),
        ("0.125", "%", 0.125),
        ("1e+06", "byte", 1e6),
        ("27.595", "byte", 27_595.0),  # bytes are whole: the dot groups
        ("27,595", "sector", 27_595.0),
    ],
)
def test_units_and_separators(cell, unit, value):
    found, refused = one(cell, unit)
    assert found == pytest.approx(value)
    assert refused == {}


def test_a_number_that_could_be_two_is_refused_and_said():
    found, refused = one("27.595", "%")
    assert found is None
    assert refused == {"dram__bytes_read.sum": 1}


def test_another_number_of_the_file_tells_which_it_is():
    header, units = ["ID", "Kernel Name", "a__x", "a__y"], ["", "", "%", "%"]
    page = parse_ncu_csv(table(header, units, ["0", "k", "27.595", "3,14"]))
    assert page.kernels[0].metrics == {"a__x": 27_595.0, "a__y": 3.14}
    page = parse_ncu_csv(table(header, units, ["0", "k", "27.595", "3.14"]))
    assert page.kernels[0].metrics == {"a__x": 27.595, "a__y": 3.14}


@given(st.integers(0, 10**13), st.integers(0, 99), st.booleans())
def test_what_any_locale_writes_is_read_back(whole, cents, european):
    text = f"{whole:,}.{cents:02d}"
    if european:
        text = text.translate(str.maketrans(",.", ".,"))
    found, refused = one(text, "byte")
    assert found == pytest.approx(whole + cents / 100)
    assert refused == {}


@pytest.mark.parametrize("cell", ["", "n/a", "(!) n/a", "no data"])
def test_no_value_is_unknown_and_not_nought(cell):
    assert one(cell, "byte") == (None, {})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no line begins"),
        ("==PROF== Connected\n==ERROR== ERR_NVGPUCTRPERM - no permission\n", "ERR_NVGPUCTRPERM"),
        ('"ID","Process ID"\n"0","1"\n', "no column Kernel Name"),
        ('"ID","Kernel Name"\n"0","' + "x" * 200_000 + '"\n', "damaged"),
    ],
)
def test_what_is_no_table_is_told(text, words):
    with pytest.raises(TraceError, match=re.escape(words)):
        parse_ncu_csv(text)


def test_a_table_cut_off_keeps_its_whole_rows():
    text = golden("ncu_raw_base.csv")
    for cut in range(0, len(text), 397):
        try:
            page = parse_ncu_csv(text[:cut])
        except TraceError:
            continue
        assert len(page.kernels) <= 11
        for kernel in page.kernels:
            assert kernel.metrics.get("gpu__time_duration.sum", 1) > 0


def test_a_kernel_name_cannot_pose_as_a_range():
    hostile = 'x"" ""0:<default domain>:RUN::math::S1:none:none:RGB:0xff:REGISTERED:RUN::math::S1'
    text = table(["ID", "Kernel Name", "a_Range:b", "a__x"], ["", "", "", ""], ["0", hostile, "", "1"])
    kernel = parse_ncu_csv(text).kernels[0]
    assert kernel.ranges == ()
    assert kernel.name == hostile


WIDE = '"ID","Kernel Name","a Push/Pop_Range: x","dram__bytes.sum"\n"","","","byte"\n"{id}","k","{ranges}","{value}"\n'
LONG = '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n"{id}","k","dram__bytes.sum","byte","{value}"\n'


@pytest.mark.parametrize("table", [WIDE, LONG])
@pytest.mark.parametrize("value", ["1.1.1.1", "1e999", "-1e999", "9" * 5_000, "1,2.3,4", "1." * 3_000, "\u0661\u0662"])
def test_values_that_are_no_numbers_are_refused(table, value):
    """They ended in a ValueError, or went on as infinite."""
    page = parse_ncu_csv(table.format(id=0, value=value, ranges=""))
    assert [kernel.metrics for kernel in page.kernels] == [{}]


@pytest.mark.parametrize("table", [WIDE, LONG])
@pytest.mark.parametrize("number", ["9" * 5_000, "-1", "\u0661", "x"])
def test_rows_without_a_number_are_passed_over(table, number):
    assert parse_ncu_csv(table.format(id=number, value=1, ranges="")).kernels == ()


@pytest.mark.parametrize("column", ["Metric Unit", "Metric Value"])
def test_a_long_table_without_a_column_it_needs(column):
    with pytest.raises(TraceError, match=column):
        parse_ncu_csv(LONG.format(id=0, value=1).replace(f'"{column}"', '"Other"'))


def test_a_cell_of_ranges_made_of_quotes_takes_no_longer_than_others():
    before = time.thread_time()
    parse_ncu_csv(WIDE.format(id=0, value=1, ranges='""x' * 40_000))
    assert time.thread_time() - before < 2


CELLS = (
    "", "-1", "1e999", "nan", "0x10", "9" * 400, '"', "=1+1", "\x1b[31m", "\0", "a\nb", "1,234,567.8", "1.234,5", "%",
    "x" * 5_000, '"RUN::math::S1"' * 50, "\ud7ff", "(1, 1, 1)",
)  # fmt: skip


def mutate(rows, source):
    """One to three changes that keep the text a table: cells, rows, columns, the header and the units."""
    rows = [list(row) for row in rows]
    for _ in range(source.choice((1, 1, 2, 3))):
        row = source.choice(rows[: source.choice((1, 2, len(rows)))] or rows)
        at = source.randrange(len(row)) if row else 0
        kind = source.randrange(6)
        if kind == 0 and row:
            row[at] = source.choice(CELLS)
        elif kind == 1:
            del row[at:]
        elif kind == 2:
            row += [source.choice(CELLS)] * source.choice((1, 50))
        elif kind == 3:
            for each in rows:
                del each[at : at + 1]
        elif kind == 4:
            source.shuffle(row)
        else:
            rows.insert(source.randrange(len(rows)), list(source.choice(rows)))
    return rows


@pytest.mark.parametrize("name", ["ncu_raw_base.csv", "ncu_raw_auto.csv"])
def test_changed_tables_are_an_error_of_ours_or_numbers(name):
    text = golden(name)
    rows = list(csv.reader(io.StringIO(text[text.index('"ID"') :])))[:5]
    source, read = random.Random(name), 0
    for _ in range(150):
        changed = table(*mutate(rows, source))
        begin = time.thread_time()
        try:
            kernels = parse_ncu_csv(changed).kernels
        except TraceError as error:
            assert error.next_step
        else:
            read += 1
            assert all(math.isfinite(value) for kernel in kernels for value in kernel.metrics.values())
        assert time.thread_time() - begin < 1
    assert 20 < read < 150


def test_quotes_that_never_end_a_word_take_no_longer_than_others():
    """From each of them the rest of the cell was searched: 240 KB took 11 s."""
    cell = '"a"b' * 2000
    header = '"ID","Kernel Name","thread Domain:Push/Pop_Range:PL_Type","gpu__time_duration.sum"\n'
    rows = "".join('"{}","k","{}","1"\n'.format(number, cell.replace('"', '""')) for number in range(20))
    begin = time.process_time()
    page = parse_ncu_csv(header + rows)
    assert time.process_time() - begin < 2
    assert [kernel.ranges for kernel in page.kernels] == [()] * 20
