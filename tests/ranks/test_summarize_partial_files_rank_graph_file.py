"""The graph of a rank survives the partial result of its trace."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from nsysprof.ranks.identity import RankSource
from nsysprof.ranks.replay.joined_graph import share_collectives
from nsysprof.ranks.summarize import decode_rank_graph, read_part, summarize_rank, write_part
from tests.ranks.replay.data_parallel import Training


def test_a_graph_is_read_as_it_was_written(tmp_path: Path) -> None:
    path, _ = Training(reduces_always=True).write(tmp_path)
    leaf = summarize_rank(RankSource(0, path))
    write_part(leaf, tmp_path / "part.parquet")
    again = read_part(tmp_path / "part.parquet")
    assert again is not None
    mine, read = leaf.detail.graph, again.detail.graph
    assert mine is not None
    assert read is not None
    for field in fields(mine.graph):
        assert np.array_equal(getattr(mine.graph, field.name), getattr(read.graph, field.name)), field.name
    pd.testing.assert_frame_equal(mine.collectives, read.collectives, check_dtype=False)
    assert (mine.has_passes, mine.usual_ns, mine.steps.per) == (read.has_passes, read.usual_ns, read.steps.per)
    shared = share_collectives([mine, read])
    assert shared is not None
    assert not shared.offset_ns.any()


def test_ranks_beyond_those_that_are_replayed_keep_no_graph(tmp_path: Path) -> None:
    path, _ = Training(reduces_always=True).write(tmp_path)
    assert summarize_rank(RankSource(8, path)).detail.graph is None


def test_damaged_bytes_are_refused() -> None:
    with pytest.raises(ValueError, match="pickle"):
        decode_rank_graph(b"damaged")
