"""Captures on a real GPU: run by hand with `pytest -m gpu`, never in CI."""

import json
import random
import sqlite3

import pytest

torch = pytest.importorskip("torch", reason="needs the extra [torch]")

from nsysprof.analysis.overview.summarize import summarize  # noqa: E402
from nsysprof.attention.shape import Case, expand_grid  # noqa: E402
from nsysprof.capture.folder import prepare_folder  # noqa: E402
from nsysprof.capture.plan import plan_capture  # noqa: E402
from nsysprof.capture.run import run_capture  # noqa: E402
from nsysprof.files.plain_file import json_value  # noqa: E402
from nsysprof.results.analysis import RESULT_COLUMNS  # noqa: E402
from nsysprof.trace.open import open_trace  # noqa: E402
from nsysprof.trace.tables import read_tables  # noqa: E402
from nsysprof.workload.backends import load_attention  # noqa: E402
from nsysprof.workload.correctness_check import check_attention  # noqa: E402
from nsysprof.workload.refusal import IneligibleError, eligibility  # noqa: E402
from tests.builders.registering import our_backends, register  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")]

ILLEGAL = """
import torch
def illegal(q, k, v, is_causal):
    kernel = torch.cuda._compile_kernel('extern "C" __global__ void bad(long p) { *(int*)p = 1; }', 'bad')
    kernel((1, 1, 1), (1, 1, 1), (1 << 44,))
    torch.cuda.synchronize()
"""


def capture(folder, cases, profiler, nsys=None):
    plan = plan_capture(cases, profiler=profiler, device="cuda", memory_bytes=None, samples=10)
    folder.mkdir(parents=True, exist_ok=True)
    prepare_folder(folder)
    return run_capture(
        plan, folder, nsys=nsys, fall_back=False, result_columns=RESULT_COLUMNS, on_progress=lambda *_: None
    )


def analyze(path):
    with open_trace(path) as trace:
        return summarize(read_tables(trace))


def test_peak_memory_does_not_depend_on_what_ran_before(tmp_path):
    cases = expand_grid(["math", "flash", "efficient", "cudnn", "naive"], [1024, 2048])
    peaks = []
    for order in range(3):
        shuffled = random.Random(order).sample(cases, len(cases))
        captured = capture(tmp_path / str(order), shuffled, "none")
        peaks.append(
            {
                case: {key: value for key, value in json_value(outcome.block).items() if key.endswith("_bytes")}
                for case, outcome in zip(shuffled, captured.progress.outcomes, strict=True)
            }
        )
    assert peaks[0] == peaks[1] == peaks[2]
    flash = next(peak for case, peak in peaks[0].items() if (case.backend, case.seq) == ("flash", 1024))
    assert flash["peak_bytes"] < 16 << 20, "no cuBLAS workspace of an earlier case"


def test_nsys_and_the_embedded_profiler_count_the_same_kernels_forward_and_backward(tmp_path, nsys):
    cases = expand_grid(["math", "flash"], [512, 1024], passes=["fwd", "fwdbwd", "bwd"])
    by_nsys = analyze(capture(tmp_path / "nsys", cases, "nsys", nsys).trace)
    by_torch = analyze(capture(tmp_path / "torch", cases, "torch").trace)

    def counts(analysis):
        ranges = analysis.ranges[analysis.ranges["range"].str.startswith("RUN::")]
        return {(r, s): k for r, s, k in zip(ranges["range"], ranges["style"], ranges["kernel_count"], strict=True)}

    assert counts(by_nsys) == counts(by_torch)
    whole, pushed = (counts(by_nsys)["RUN::flash::S1024::pass=fwdbwd", style] for style in ("StartEnd", "PushPop"))
    assert whole > pushed > 0, "autograd launches the backward pass from threads of its own"
    assert by_nsys.coverage.launches_without_gpu_record == 0


def scaled_by(attention, factor):
    return lambda q, k, v, is_causal: attention(q * factor, k, v, is_causal)


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp32"])
@pytest.mark.parametrize("backend", ["math", "flash", "efficient", "cudnn", "naive", "flex"])
def test_right_backends_pass_the_check_and_wrong_ones_do_not(backend, dtype, tmp_path, monkeypatch):
    register(monkeypatch, tmp_path, our_backends())
    for seq, heads, kv_heads, head_dim, causal, pass_ in (
        (128, 4, 4, 64, True, "fwdbwd"),
        (1000, 4, 4, 128, False, "fwdbwd"),
        (2048, 8, 2, 64, True, "fwdbwd"),
        (8192, 8, 8, 64, True, "fwd"),
    ):
        case = Case(
            backend, seq=seq, heads=heads, head_dim=head_dim, dtype=dtype, causal=causal, pass_=pass_, kv_heads=kv_heads
        )
        select, attention = load_attention(backend)
        try:
            with select, eligibility(backend):
                result = check_attention(attention, case, "cuda")
                wrong = check_attention(scaled_by(attention, 0.9), case, "cuda")
        except IneligibleError:
            continue
        assert result.ok, (case, result.reason)
        assert not wrong.ok
        print(backend, dtype, seq, {n: f"{result.errors[n] / result.tolerances[n]:.2f}" for n in result.errors})


def test_an_illegal_address_costs_one_case_and_the_trace_goes_on(tmp_path, nsys, monkeypatch):
    (tmp_path / "broken_kernels.py").write_text(ILLEGAL)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    cases = expand_grid(["flash", "broken_kernels:illegal", "math"], [1024])
    captured = capture(tmp_path / "capture", cases, "nsys", nsys)
    assert [outcome.status for outcome in captured.progress.outcomes] == ["ok", "error", "ok"]
    assert "illegal memory access" in captured.progress.outcomes[1].reason
    with sqlite3.connect(captured.trace) as database:
        (kernels,) = database.execute("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()
    database.close()
    assert kernels > 0
    assert json.loads((tmp_path / "capture" / "manifest.json").read_text())["complete"]
