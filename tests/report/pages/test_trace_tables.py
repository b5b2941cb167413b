from dataclasses import replace

import pandas as pd

from nsysprof.app.analyze import analyze_trace
from nsysprof.report.formats.console import lay_out
from nsysprof.report.pages.trace_tables import range_api_table, range_table
from nsysprof.trace.inputs.resolve_input import unpack
from tests.conftest import REPOSITORY
from tests.report import samples

PLACE = {"style": "PushPop", "domain": ""}


def test_a_call_is_listed_with_the_range_in_which_it_is_made_and_not_once_more_for_each_range_around_it(tmp_path):
    tree = pd.DataFrame(
        [
            {"range": name, "depth": depth, **PLACE}
            for name, depth in (("step#", 0), ("load", 1), ("forward", 1), ("small", 2))
        ]
    )
    calls = [
        ("step#", "cudaMemcpyAsync", 721),
        ("load", "cudaMemcpyAsync", 718),
        ("step#", "cudaLaunchKernel", 500),
        ("forward", "cudaLaunchKernel", 290),
        ("small", "cudaLaunchKernel", 190),
        ("other", "cudaMemcpyAsync", 700),
    ]
    rows = [
        {"range": name, "name": call, "calls": 1, "total_ns": ns, "wall_pct": 1.0, **PLACE} for name, call, ns in calls
    ]
    analysis = replace(samples.analysis(tmp_path), range_tree=tree, range_api=pd.DataFrame(rows))
    table = range_api_table(analysis)
    assert [(row[0].value, row[1].value) for row in table.rows] == [
        ("load", "cudaMemcpyAsync"), ("step#", "cudaLaunchKernel"), ("forward", "cudaLaunchKernel"),
        ("small", "cudaLaunchKernel"), ("other", "cudaMemcpyAsync"),
    ]  # fmt: skip
    assert "nested ranges included" in table.title


def test_a_range_that_is_open_in_both_styles_has_each_call_once(tmp_path):
    both = [
        {
            "range": "RUN::S8",
            "name": "bmm",
            "calls": 2,
            "total_ns": 9,
            "wall_pct": wall,
            "domain": "",
            "style": style,
        }
        for style, wall in (("StartEnd", None), ("PushPop", 41.0))
    ]
    other = {**both[0], "range": "server", "calls": 3}
    tree = pd.DataFrame(
        [{"range": row["range"], "style": row["style"], "domain": "", "depth": 0} for row in (*both, other)]
    )
    analysis = replace(samples.analysis(tmp_path), range_tree=tree, range_api=pd.DataFrame([*both, other]))
    rows = range_api_table(analysis).rows
    assert [(row[0].value, row[4].value) for row in rows] == [("RUN::S8", 41.0), ("server", None)]


def test_at_80_columns_the_ranges_keep_what_people_read_and_drop_the_others(tmp_path):
    table = range_table(analyze_trace(unpack(REPOSITORY / "traces" / "mp.sqlite.xz", tmp_path)))
    shown = {width: [table.columns[number].title for number in lay_out(table, width).shown] for width in (70, 80, 200)}
    kept = ["range", "launches", "kernels", "GPU total", "copied", "peak VRAM"]
    assert shown[70] == kept
    assert [title for title in shown[80] if title != "wall"] == kept, "wall comes back where there is room"
    assert shown[200] == [column.title for column in table.columns]
