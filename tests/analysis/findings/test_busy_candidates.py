"""Findings about busy time on real programs: each predicts what the change saved, measured without a profiler."""

import json
import statistics

import pytest

from nsysprof.app.analyze import analyze_trace
from scripts.prove_busy import ACCUSED_PCT, MENDED, MOST_OFF_PCT, PLANTED, TRACES, UNSEEN

TIMES = json.loads((TRACES / "step_times.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("fault", [*PLANTED, *UNSEEN], ids=lambda fault: f"{fault.trace}-{fault.code}")
def test_each_fault_is_found_and_saves_what_its_mending_saved(trace_path, fault):
    found = analyze_trace(trace_path(f"h200-busy/{fault.trace}")).findings
    item = next(item for item in found.items if item.code == fault.code)
    step_ms, saved_ms, _, _ = fault.saved_ms(TIMES)
    assert abs(item.saving_ns / 1e6 - saved_ms) <= MOST_OFF_PCT / 100 * step_ms
    assert 0 <= item.saving_low_ns <= item.saving_ns <= item.saving_high_ns
    # The study has one digit after the point.
    assert item.saving_low_ns / 1e6 - 0.1 <= saved_ms <= item.saving_high_ns / 1e6 + 0.1


@pytest.mark.parametrize("name", MENDED)
def test_mended_programs_are_accused_of_nothing(trace_path, name):
    found = analyze_trace(trace_path(f"h200-busy/{name}")).findings
    assert [item.code for item in found.items if 100 * item.saving_ns > ACCUSED_PCT * found.step_ns] == []


def test_waits_of_cudnn_for_its_own_streams_are_no_finding(trace_path):
    codes = [item.code for item in analyze_trace(trace_path("h200-busy/resnet-all")).findings.items]
    assert codes[0] == "no-tensor-cores"
    assert "stream-dependency" not in codes


def truth_ms(folder, *keys):
    """Return the median step without a profiler of a program in one of its forms; of several processes, of each."""
    times = json.loads((TRACES.parent / folder / "step_times.json").read_text(encoding="utf-8"))
    for key in keys:
        times = times[key]
    return [statistics.median(part) for part in times] if isinstance(times[0], list) else [statistics.median(times)]


@pytest.mark.parametrize(
    ("trace", "keys"),
    [
        ("h200-busy/llama", ("llama", "pieces")),
        ("h200-busy/resnext", ("resnext", "nchw")),
        ("h200-programs/train-all", ("train_llama", "all")),
        ("h200-faults/small-kernels", ("train_llama", "small-kernels")),
        ("h200-faults/sleeping-loader", ("train_llama", "sleeping-loader")),
        ("h200-faults/all", ("train_llama", "all")),
        ("h200-programs/fsdp-even_rank1", ("train_fsdp", "fsdp-even")),
        ("h200-programs/fsdp-slow0_rank0", ("train_fsdp", "fsdp-slow0")),
    ],
)
def test_a_step_without_the_profiler_is_within_what_a_replay_says(trace_path, trace, keys):
    found = analyze_trace(trace_path(trace)).findings
    assert found.unrecorded_low_ns is not None
    for step_ms in truth_ms(trace.partition("/")[0], *keys):
        assert found.unrecorded_low_ns < step_ms * 1e6 < found.step_ns


@pytest.mark.parametrize("name", ["bert", "gpt-all", "resnet-none", "vgg-mended", "vit"])
def test_where_the_gpu_sets_the_pace_the_recorded_step_is_that_of_the_program(trace_path, name):
    found = analyze_trace(trace_path(f"h200-busy/{name}")).findings
    assert found.unrecorded_low_ns is None
