"""A rank whose process an allocation ended is named in the analysis of its job."""

from pathlib import Path

import pytest

from tests.ranks.job import slow_in_backward, write_job
from tests.ranks.test_ranks import analyze


@pytest.mark.parametrize(
    ("files", "is_named"),
    [
        (("memory-77.oom-first.pickle",), True),
        # This process went on and reached its end; another one did not.
        (("memory-77.oom-first.pickle", "memory-77.oom-last.pickle", "memory-77.pickle"), False),
        (("memory-77.oom-last.pickle", "memory-77.pickle", "memory-78.oom-first.pickle"), True),
        (("memory-77.pickle", "memory-x.oom-first.pickle"), False),
    ],
)
def test_a_rank_without_an_end_is_named(tmp_path: Path, files: tuple[str, ...], is_named: bool) -> None:
    traces = write_job(tmp_path / "in", 3, slow_in_backward)
    for file in files:
        traces[1].with_name(f"{traces[1].name.partition('.')[0]}.{file}").touch()
    notes = [note for note in analyze(traces, tmp_path / "out").notes if note.code == "rank-out-of-memory"]
    assert [note.text.partition(":")[0] for note in notes] == (["Rank 1"] if is_named else [])
