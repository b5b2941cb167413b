"""The commands as Python functions: the same files, objects instead of text, and nothing printed."""

import inspect
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

import nsysprof
from nsysprof.errors import CaptureFailedError, UsageError
from tests.builders.build_trace import TraceBuilder

FUNCTIONS = ("analyze", "compare", "bench", "tune", "export_trace", "write_bundle", "bench_sides")


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
    monkeypatch.setattr("nsysprof.api.use_cases.run_bench", lambda _request, _progress: failed)
    with pytest.raises(CaptureFailedError):
        nsysprof.bench(nsysprof.Grid(), out=tmp_path / "b")


def stub_of(name):
    """Return a function as nsysprof/__init__.pyi has it, from its signature and its own return type."""
    function = getattr(nsysprof, name)
    lines, has_star = [], False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            has_star = True
        elif parameter.kind is parameter.KEYWORD_ONLY and not has_star:
            lines, has_star = [*lines, "*"], True
        hint = parameter.annotation
        if not isinstance(hint, str):
            hint = hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint)
            hint = hint.replace("str | os.PathLike[str]", "Source").replace("typing.", "")
            hint = hint.replace("collections.abc.", "").replace("'", '"')
        default = "" if parameter.default is parameter.empty else " = ..."
        lines.append(f"{'*' if parameter.kind is parameter.VAR_POSITIONAL else ''}{parameter.name}: {hint}{default}")
    body = "".join(f"    {line},\n" for line in lines)
    returned = inspect.get_annotations(inspect.unwrap(function))["return"]
    return f"def {name}(\n{body}) -> {returned}: ...\n"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_editor_sees_the_options_of_the_request(name):
    """Where this fails, put the text that it wants into nsysprof/__init__.pyi."""
    stub = Path(nsysprof.__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    assert stub_of(name) in stub, stub_of(name)


def test_an_option_that_no_request_has_is_refused(trace):
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        nsysprof.analyze(trace, colour="red")


def test_importing_the_package_loads_none_of_it():
    code = (
        "import sys, nsysprof; dir(nsysprof); assert not [m for m in sys.modules if m.startswith('nsysprof.')]; "
        "nsysprof.bench; assert not {'torch', 'matplotlib', 'scipy'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
