import json
from pathlib import Path

import pytest

from nsysprof.errors import TraceError, UsageError
from nsysprof.ranks.identity import RankSource, drop_copies, find_sources, number_ranks, rank_in_name, some
from nsysprof.results.rank_results import RankRow


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("rank3.sqlite", 3),
        ("run_rank-012.sqlite", 12),
        ("Rank=7.nsys-rep", 7),
        ("frank3.sqlite", None),
        ("3.sqlite", None),
    ],
)
def test_a_files_name_may_say_the_rank(name, rank):
    assert rank_in_name(Path(name)) == rank


def test_a_folders_traces_come_in_the_order_of_their_numbers(tmp_path):
    for name in ("rank10.sqlite", "rank2.sqlite", "notes.txt"):
        (tmp_path / name).touch()
    assert [source.path.name for source in find_sources([tmp_path], None)] == ["rank2.sqlite", "rank10.sqlite"]


def test_a_folder_without_traces_and_a_missing_input_are_errors(tmp_path):
    with pytest.raises(TraceError, match="contains no trace"):
        find_sources([tmp_path], None)
    with pytest.raises(TraceError, match="does not exist"):
        find_sources([tmp_path / "none"], None)


def test_a_manifest_cannot_lead_out_of_its_folder(tmp_path):
    (tmp_path / "secret.sqlite").touch()
    folder = tmp_path / "capture"
    folder.mkdir()
    (folder / "manifest.json").write_text(json.dumps({"ranks": [{"rank": 1, "trace": "../secret.sqlite"}]}))
    (source,) = find_sources([folder], None)
    assert source.path == folder / "ranks" / "rank00001.sqlite"
    assert not source.path.exists()


@pytest.mark.parametrize(
    ("measured", "rate"),
    [({"link_bytes_per_s": 388e9}, 388e9), ({"link_bytes_per_s": None}, None), ({"link_bytes_per_s": "fast"}, None),
     ({"link_bytes_per_s": -1}, None), ({"link_bytes_per_s": 1e300}, None), ([], None), (None, None)],
)  # fmt: skip
def test_what_the_capture_measured_of_the_link_is_known_for_each_rank(tmp_path, measured, rate):
    manifest = {"ranks": [{"rank": 1}, {"rank": 0}], "environment": {"ceilings": measured}}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    sources = find_sources([tmp_path], None)
    assert [(source.rank, source.position, source.link_bytes_per_s) for source in sources] == [
        (1, 0, rate), (0, 1, rate)
    ]  # fmt: skip
    # A bundle lists its ranks by itself.
    (tmp_path / "bundle.json").write_text(json.dumps({"ranks": [{"rank": 0}]}))
    assert [source.link_bytes_per_s for source in find_sources([tmp_path], None)] == [rate]


def test_a_copy_is_dropped_and_another_trace_of_the_rank_refused(tmp_path):
    paths = [tmp_path / name for name in ("rank0.sqlite", "rank0-copy.sqlite", "rank0-other.sqlite")]
    for path, content in zip(paths, (b"a", b"a", b"b"), strict=True):
        path.write_bytes(content)
    first, copy, other = (RankSource(number, path) for number, path in enumerate(paths))
    kept, (note,) = drop_copies([first, copy], by_order=False)
    assert (kept, note.code) == ([first], "copy-of-a-rank")
    with pytest.raises(UsageError, match="Rank 0 has two traces"):
        drop_copies([first, other], by_order=False)
    assert drop_copies([first, other], by_order=True) == ([first, other], [])


def test_one_source_of_ranks_serves_all_traces():
    paths = {0: Path("rank5.sqlite"), 1: Path("rank4.sqlite")}
    known = [RankRow(0, "a", 1, "trace"), RankRow(1, "b", 0, "trace")]
    assert number_ranks(known, paths, by_order=False) == {0: (1, "trace"), 1: (0, "trace")}
    half = [known[0], RankRow(1, "b")]
    assert number_ranks(half, paths, by_order=False) == {0: (1, "trace"), 1: (4, "file name")}
    assert number_ranks(half, {**paths, 1: Path("x")}, by_order=False) == {0: (0, "order"), 1: (1, "order")}
    with pytest.raises(UsageError, match="Rank 1 has two traces"):
        number_ranks([known[0], RankRow(1, "b", 1, "trace")], paths, by_order=False)


def test_a_long_list_is_cut():
    assert some([3, 4]) == "3, 4"
    assert some(range(12)) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more"
