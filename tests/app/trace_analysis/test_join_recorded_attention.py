"""Where a trace has no ranges of attention, the counts of the program's processes are listed without kernels."""

import json
from dataclasses import replace

import pandas as pd
import pytest

from nsysprof.analysis.attention_tuning.program_attention import read_program
from nsysprof.app.analyze import analyze_trace
from nsysprof.app.trace_analysis.join_recorded import join_attention
from nsysprof.errors import TraceError
from tests.analysis.programs import Program

CALL = {"function": "sdpa", "site": "m.py:3", "batch": 2, "heads": 8, "kv_heads": 8, "seq_q": 16, "seq_kv": 16,
        "head_dim": 64, "dtype": "fp32", "causal": True, "mask": "none", "dropout": 0.0, "layout": "bhsd",
        "forward": 5, "backward": 2}  # fmt: skip


@pytest.fixture
def analysis(tmp_path):
    program = Program()
    program.launch(10)
    return analyze_trace(program.builder.write(tmp_path / "nsys.sqlite"))


def write(folder, process, *calls):
    path = folder / f"nsys.attention-{process}.json"
    path.write_text(json.dumps({"format_version": 1, "process": process, "calls": list(calls)}))


def test_calls_of_all_processes_are_added(analysis, tmp_path):
    write(tmp_path, 1, CALL, {**CALL, "mask": "nested", "seq_q": None, "backward": 0})
    write(tmp_path, 2, CALL)
    table = join_attention(analysis, tmp_path).attention
    assert table[["pass", "calls", "range"]].values.tolist() == [
        ["fwd", 10, "m.py:3"], ["bwd", 4, "m.py:3"], ["fwd", 5, "m.py:3"],
    ]  # fmt: skip
    assert table["kernel_total_ns"].isna().all()
    assert table["causal"].tolist() == [True] * 3
    assert table["seq_q"].isna().tolist() == [False, False, True]


def test_masks_whose_keys_lie_apart_are_those_of_calls_on_a_gpu(analysis, tmp_path):
    def strided_masks():
        return read_program(join_attention(analysis, tmp_path)).strided_masks

    assert strided_masks() == frozenset()
    on_gpu = {**CALL, "device": "cuda", "mask": "float:1hqk"}
    write(tmp_path, 1, {**on_gpu, "mask_stride": 4}, {**on_gpu, "site": "m.py:5", "mask_stride": 1}, CALL)
    write(tmp_path, 2, {**on_gpu, "site": "m.py:7", "mask_stride": 4, "device": "cpu"}, {**on_gpu, "site": "m.py:9"})
    assert strided_masks() == {"m.py:3"}


def test_calls_with_ranges_get_the_strides_of_their_masks(analysis, tmp_path):
    """Two masks of one line and shape differ, and on a CPU the stride does not matter."""
    on_gpu = {**CALL, "device": "cuda", "mask": "float:1hqk", "backward": 0}
    calls = [
        {**on_gpu, "site": "m.py:5", "mask_stride": 1},
        {**on_gpu, "seq_q": 8, "mask_stride": 1},
        {**on_gpu, "site": "m.py:7", "mask_stride": 4, "device": "cpu"},
        {**on_gpu, "mask_stride": 4},
    ]
    write(tmp_path, 1, *calls)
    recorded = join_attention(analysis, tmp_path).attention
    assert recorded["mask_stride"].fillna(0).tolist() == [1, 1, 0, 4]
    write(tmp_path, 2, {**on_gpu, "mask_stride": 1})
    with_ranges = replace(analysis, attention=recorded.assign(mask_stride=pd.NA, kernel_total_ns=5))
    joined = join_attention(with_ranges, tmp_path).attention
    assert joined["mask_stride"].fillna(0).tolist() == [1, 1, 0, 4]
    assert joined["kernel_total_ns"].tolist() == [5] * 4


def test_nothing_was_recorded(analysis, tmp_path):
    assert join_attention(analysis, tmp_path) is analysis


def test_a_damaged_file_is_an_error(analysis, tmp_path):
    (tmp_path / "nsys.attention-1.json").write_text('{"format_version": 1, "calls": 3}')
    with pytest.raises(TraceError, match="file of attention"):
        join_attention(analysis, tmp_path)


def test_kernels_outside_of_the_recorded_calls_are_told(analysis, tmp_path):
    write(tmp_path, 1, {**CALL, "head_dim_v": 128, "backward": 0})
    recorded = join_attention(analysis, tmp_path).attention
    assert recorded["head_dim_v"].tolist() == [128]
    with_ranges = recorded.assign(kernel_count=5)
    alone = with_ranges.assign(function=pd.NA, backend_ran="sage", kernel_count=1200)
    math = with_ranges.assign(function=pd.NA, backend_ran="math")
    both = replace(analysis, attention=pd.concat([with_ranges, alone, math], ignore_index=True))
    (note,) = (note for note in join_attention(both, tmp_path).notes if note.code == "attention-unseen")
    assert note.text == "1,200 attention kernels ran outside of the recorded calls; they are those of sage."
    told = join_attention(replace(analysis, attention=with_ranges), tmp_path).notes
    assert told == analysis.notes
