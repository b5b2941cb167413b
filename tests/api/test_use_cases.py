"""The commands as Python functions: the same files, objects instead of text, and nothing printed."""

import inspect
import subprocess
import sys

import pytest

import nsysprof
from nsysprof.api import use_cases
from nsysprof.errors import CaptureFailedError, UsageError
from tests.builders.build_trace import TraceBuilder

FUNCTIONS = ("analyze", "compare", "bench", "tune", "export_trace", "write_bundle")


@pytest.fixture
def trace(tmp_path):
    builder = TraceBuilder()
    builder.launch(10, 1, name="gemm")
    return builder.write(tmp_path / "t.sqlite")


def test_analyze_writes_the_folder_and_prints_nothing(trace, tmp_path, capfd):
    result = nsysprof.analyze(trace, out=tmp_path / "a", figures=False)
    assert result.analysis.totals.kernel_count == 1
    assert tmp_path / "a" / "summary.json" in result.files
    assert capfd.readouterr() == ("", "")


def test_several_traces_are_ranks(trace, tmp_path):
    builder = TraceBuilder()
    builder.launch(20, 1, name="gemm")
    other = builder.write(tmp_path / "u.sqlite")
    result = nsysprof.analyze(trace, str(other), out=tmp_path / "r", figures=False, workers=1, by_order=True)
    assert [row.rank for row in result.analysis.rows] == [0, 1]


def test_compare_answers_as_the_gate_does(trace, tmp_path):
    assert nsysprof.compare(trace, [trace], fail_on="launches:+1").comparison.outcome == "pass"
    with pytest.raises(UsageError, match="needs a baseline"):
        nsysprof.compare(trace, [])


def test_export_and_bundle(trace, tmp_path):
    (written,) = nsysprof.export_trace(trace, chrome=tmp_path / "t.json").written
    assert (written.format, written.path.exists()) == ("chrome", True)
    shown = nsysprof.write_bundle(trace, out=tmp_path / "b.zip", show=True)
    assert shown.path is None
    assert shown.contents.rows["CUPTI_ACTIVITY_KIND_KERNEL"] == 1
    assert not (tmp_path / "b.zip").exists()
    made = nsysprof.write_bundle(trace, out=tmp_path / "b.zip")
    assert made.path.stat().st_size == made.bytes


def test_a_progress_of_ones_own_hears_what_is_done(trace, tmp_path):
    lines = []

    class Heard(nsysprof.Progress):
        def say(self, text):
            lines.append(text)

    nsysprof.analyze(trace, out=tmp_path / "a", figures=False, progress=Heard())
    assert any("kernel" in line for line in lines)


def test_what_makes_no_sense_is_refused_as_in_the_command(tmp_path):
    for function in (nsysprof.bench, nsysprof.tune):
        with pytest.raises(UsageError, match="Did you mean 'flash'"):
            function(nsysprof.Grid(backends=("flahs",)), out=tmp_path / "b")
    with pytest.raises(UsageError, match="No format was given"):
        nsysprof.export_trace("t.sqlite")


def test_a_bench_without_any_result_raises(monkeypatch, tmp_path):
    from types import SimpleNamespace

    failed = SimpleNamespace(failure=CaptureFailedError("None of 1 cases could be measured."))
    monkeypatch.setattr("nsysprof.app.measuring.bench.bench", lambda _request, _progress: failed)
    with pytest.raises(CaptureFailedError):
        nsysprof.bench(nsysprof.Grid(), out=tmp_path / "b")


def test_every_function_passes_every_option_on():
    """A keyword of the function is a field of its request, with the same default."""
    from nsysprof.app import analyze, bundle, compare, export, tune
    from nsysprof.app.measuring import bench

    requests = (analyze.AnalyzeRequest, compare.CompareRequest, bench.BenchRequest, tune.TuneRequest,
                export.ExportRequest, bundle.BundleRequest)  # fmt: skip
    for name, request in zip(FUNCTIONS, requests, strict=True):
        given = inspect.signature(getattr(use_cases, name)).parameters
        wanted = inspect.signature(request).parameters
        assert set(given) - {"progress"} == set(wanted) - {"command"}, name
        for option, parameter in given.items():
            if option in wanted and parameter.default is not inspect.Parameter.empty:
                assert parameter.default == wanted[option].default, (name, option)


def test_importing_the_package_loads_none_of_it():
    code = (
        "import sys, nsysprof; dir(nsysprof); assert not [m for m in sys.modules if m.startswith('nsysprof.')]; "
        "nsysprof.bench; assert 'pandas' not in sys.modules and 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
