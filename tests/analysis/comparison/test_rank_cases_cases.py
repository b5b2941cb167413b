import pandas as pd

from nsysprof.analysis.comparison.rank_cases import fill_results
from nsysprof.analysis.overview.summarize import summarize
from nsysprof.results.analysis import RESULT_COLUMNS
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.builders.build_trace import OTHER_TID, TraceBuilder


def test_rows_take_the_process_wide_range_and_stay_unknown_without_one(tmp_path):
    builder = TraceBuilder()
    for kind in (59, 60):
        builder.range(0, 100, "RUN::flash::S8", kind=kind)
    builder.launch(10, 1)
    builder.launch(20, 2, tid=OTHER_TID)
    with open_trace(builder.write(tmp_path / "t.sqlite")) as trace:
        analysis = summarize(read_tables(trace))
    results = pd.DataFrame([{"range": "RUN::flash::S8"}, {"range": "RUN::math::S8"}], columns=list(RESULT_COLUMNS))
    filled = fill_results(results, analysis)
    assert filled["kernel_count"].tolist()[0] == 2
    assert filled["kernel_count"].isna().tolist() == [False, True]
    assert "kernel_count" not in results.dropna(axis=1).columns, "the input is not changed"
