"""The few numbers that the list shows of an analysis."""

from __future__ import annotations

import json

import pytest

from nsysprof.app.view import FolderOverview, read_overview


def write(folder, devices, findings=None):
    summary = {"devices": devices, "totals": {"kernel_count": 3}, "more": 1}
    (folder / "summary.json").write_text(json.dumps(summary))
    (folder / "findings.json").write_text(json.dumps({"findings": findings, "idle": None}))


def test_the_share_is_over_all_gpus_and_three_findings_are_kept(tmp_path):
    one = {"code": "sync", "range": "", "saving_ns": 1, "per": "trace", "text": "x"}
    devices = [{"gpu_span_ns": 100, "gpu_busy_ns": 50}, {"gpu_span_ns": 300, "gpu_busy_ns": 50}]
    write(tmp_path, devices, [one] * 5)
    seen = read_overview(tmp_path)
    assert (seen.busy_pct, seen.kernels, len(seen.findings)) == (25.0, 3, 3)


def test_of_ranks_the_stragglers_are_listed_once_with_what_they_cost(tmp_path):
    late = {"rank": 1, "cost_ns": 20, "range": "backward"}
    ranks = [{"kernel_count": 3}, {"kernel_count": 4}, {"kernel_count": None, "reason": "it is damaged"}]
    (tmp_path / "ranks.json").write_text(
        json.dumps({"ranks": ranks, "stragglers": [late, {**late, "range": "forward"}]})
    )
    seen = read_overview(tmp_path)
    assert (seen.busy_pct, seen.kernels) == (None, 7)
    assert [(each.where, each.saving_ns, each.text) for each in seen.findings] == [
        ("rank 1", 20, "It falls behind in backward.")
    ]


@pytest.mark.parametrize(
    "devices", [[], [{"gpu_span_ns": None, "gpu_busy_ns": None}], [{"gpu_span_ns": 0, "gpu_busy_ns": 0}]]
)
def test_what_is_unknown_is_not_zero(tmp_path, devices):
    write(tmp_path, devices)
    assert read_overview(tmp_path).busy_pct is None


def test_a_damaged_folder_says_nothing(tmp_path):
    assert read_overview(None) == read_overview(tmp_path) == FolderOverview()
    (tmp_path / "summary.json").write_text('{"devices": 7}')
    assert read_overview(tmp_path) == FolderOverview()
