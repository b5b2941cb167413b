"""Two settings measured in turn from Python."""

import pytest

import nsysprof

GRID = nsysprof.Grid(backends=("math",), seqs=(16,), heads=(2,), head_dims=(16,))


def test_sides_without_sense_are_refused_before_anything_is_measured(tmp_path):
    with pytest.raises(nsysprof.NsysprofError, match="Both sides are the same"):
        nsysprof.bench_sides(GRID, "", "", device="cpu", out=tmp_path / "o")
    with pytest.raises(nsysprof.NsysprofError, match="One turn cannot show"):
        nsysprof.bench_sides(GRID, "", "A=1", turns=1, device="cpu", out=tmp_path / "o")
    with pytest.raises(nsysprof.NsysprofError, match="not a valid side"):
        nsysprof.bench_sides(GRID, "'", "A=1", device="cpu", out=tmp_path / "o")
    assert not (tmp_path / "o").exists()


@pytest.mark.slow
@pytest.mark.torch
def test_a_setting_that_changes_nothing_gets_no_verdict_of_a_difference(tmp_path):
    pytest.importorskip("torch")
    done = nsysprof.bench_sides(
        GRID, "", "A=1", turns=3, rounds=1, samples=3, warmup_seconds=0.02, device="cpu", out=tmp_path / "o",
        figures=False,
    )  # fmt: skip
    (change,) = done.comparison.latency.changes
    assert change.verdict in ("SAME", "INCONCLUSIVE")
    assert {"baseline", "candidate", "report.md"} <= {path.name for path in done.folder.iterdir()}
