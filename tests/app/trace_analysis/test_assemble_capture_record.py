"""results.csv of a capture, and of nobody."""

import csv
import io
from pathlib import Path

import pytest

from nsysprof.app.trace_analysis.assemble import read_record, read_results
from nsysprof.errors import TraceError

REPOSITORY = Path(__file__).parents[3]
OLD = REPOSITORY / "tests/capture/old_folders/capture"


def changed(folder, column, value):
    """Write a capture's results.csv in which one cell of the first row is replaced."""
    rows = list(csv.reader((OLD / "results.csv").read_text().splitlines()))
    rows[1][rows[0].index(column)] = value
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    (folder / "results.csv").write_text(text.getvalue())


@pytest.mark.parametrize("folder", [OLD, REPOSITORY / "traces/h200-sdpa", REPOSITORY / "traces/h200-roofline"])
def test_captures_are_read(folder):
    record = read_record(folder)
    assert record is not None
    assert len(record.results) >= 4
    assert (record.results["kv_heads"] == record.results["heads"]).all()


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("seq", "", "row 1, seq: expected int, got null"),
        ("seq", "-4", "row 1, seq: expected int >= 1"),
        ("seq", "1e400", "results.csv cannot be read"),
        ("heads", "nan", "row 1, heads: expected int|results.csv cannot be read"),
        ("head_dim", "99999999999999999999999", "results.csv cannot be read"),
        ("dtype", "fp8", "row 1, dtype: expected str matching regex"),
        ("dtype", "", "row 1, dtype: expected str, got null"),
        ("causal", "perhaps", "row 1, causal: expected bool, got null"),
        ("pass", "", "row 1, pass: expected str, got null"),
        ("pass", "x" * 100_000, "row 1, pass: expected str matching regex"),
        ("backend", "\x1b]0;owned", "row 1, backend: expected str matching regex"),
        ("backend", "", "row 1, backend: expected str, got null"),
    ],
)
def test_a_row_that_names_no_case_is_refused_with_its_column(tmp_path, column, value, says):
    changed(tmp_path, column, value)
    with pytest.raises(TraceError, match=says) as caught:
        read_results(tmp_path)
    assert caught.value.next_step
    assert len(caught.value.text) < 500
