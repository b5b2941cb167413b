"""Each compilation is a range that says what and why, whatever happens within it, and the program computes the same."""

import os
import subprocess
import sys
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import pytest

from nsysprof.capture.user_program.program_hook import hook_environment
from nsysprof.trace.open import open_trace
from nsysprof.trace.table_readers.layer_ranges import read_compile_range
from nsysprof.trace.tables import read_tables
from nsysprof.workload.program_start.attention_facts import shorten_path
from nsysprof.workload.program_start.compile_ranges import CompileRanges
from tests.builders.record_with_nsys import record_nvtx

PROGRAM = """
import sys
import torch
assert "torch._dynamo" not in sys.modules, "the hook imports nothing that the program does not"
model = torch.nn.Linear(16, 16)
torch.nn.init.ones_(model.weight), torch.nn.init.zeros_(model.bias)

def block(x, scale):
    return torch.nn.functional.gelu(model(x) * scale).sum()

compiled = torch.compile(block, dynamic=False, backend="aot_eager")
for length, scale in ((4, 1), (5, 1), (5, 1), (6, 1), (6, 2)):
    if length == 6 and scale == 1:
        torch._dynamo.reset()  # which forgets the callbacks of a program
    loss = compiled(torch.full((length, 16), 0.01), scale)
    loss.backward()
    print(f"{loss.item():.6f}")
print(f"{model.weight.grad.sum().item():.4f}")
of_torch = torch.compile(torch.nn.Sequential(model, torch.nn.GELU()), dynamic=False, backend="aot_eager")
print(f"{of_torch(torch.ones(3, 16)).sum().item():.4f}")
"""


@pytest.mark.nsys
@pytest.mark.slow
def test_a_recorded_program_says_what_was_compiled_and_why(nsys, tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "program.py"]
    environment = {**os.environ, **hook_environment(tmp_path / "nsys", os.environ, ())}
    report, said = record_nvtx(nsys, tmp_path, command, cwd=tmp_path, env=environment)
    plain = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout.split()
    assert [line for line in said.split() if line in plain] == plain
    subprocess.run([nsys, "export", "--type=sqlite", "-o", tmp_path / "t.sqlite", report], check=True)
    with open_trace(tmp_path / "t.sqlite") as trace:
        compiles = read_tables(trace).compiles
    *_, last = compiles[["kind", "what", "place"]].itertuples(index=False, name=None)
    assert last == ("dynamo", "module", "program.py:20"), "of torch's own code, the line that calls it"
    forward = compiles[compiles["kind"] == "dynamo"].iloc[:-1]
    assert forward["what"].tolist() == ["block"] * 4
    assert forward["place"].tolist() == ["program.py:8"] * 4
    first, shape, after_reset, value = forward["why"]
    assert (first, after_reset) == ("", "")
    assert "size mismatch at index 0. expected 4, actual 5" in shape
    assert "scale" in value
    backward = compiles[compiles["kind"] == "backward"]
    assert set(zip(backward["what"], backward["place"], strict=True)) <= {("block", "program.py:8")}


def recorder():
    """Return wrappers whose ranges are kept in order."""
    events = []
    torch = pytest.importorskip("torch")
    return CompileRanges(torch, events.append, lambda: events.append("pop")), events


def add_kernel(x, size, block):
    """Stand for a kernel of Triton."""


def test_triton_says_its_function_and_its_constants_and_its_faults_come_out():
    ranges, events = recorder()
    function = SimpleNamespace(fn=add_kernel, arg_names=["x", "size", "block"])
    source = SimpleNamespace(fn=function, constants={(2,): 128, (1,): object()})

    def compile_it(src, target=None):
        if target is None:
            raise ValueError("no target")
        return src, target

    module = SimpleNamespace(compile=compile_it)
    ranges.wrap_triton(module)
    assert module.compile(source, target="cuda") == (source, "cuda")
    with pytest.raises(ValueError, match="no target"):
        module.compile(source)
    line = add_kernel.__code__.co_firstlineno
    place = f"{shorten_path(__file__)}:{line}"
    assert events == [f"nsysprof compile triton add_kernel ({place}): block=128", "pop"] * 2
    assert read_compile_range(events[0]).why == "block=128"


def test_tuning_and_cute_are_ranges_too():
    ranges, events = recorder()

    class Autotuner:
        base_fn = SimpleNamespace(fn=add_kernel)

        def _bench(self, *, config):
            return config

    class BaseDSL:
        def compile_and_cache(self, _module, _hash, name):
            return name

    tuner = SimpleNamespace(Autotuner=Autotuner)
    ranges.wrap_tuning(tuner)
    ranges.wrap_cute(SimpleNamespace(BaseDSL=BaseDSL))
    assert Autotuner()._bench(config=3) == 3
    assert BaseDSL().compile_and_cache(None, "", "gemm") == "gemm"
    assert [read_compile_range(name).kind for name in events[::2]] == ["tune", "cute"]
    assert read_compile_range(events[2]).what == "gemm"


def test_earlier_versions_of_torch_say_neither_trigger_nor_number():
    ranges, events = recorder()

    class CompilationCallbackHandler:
        @contextmanager
        def install_callbacks(self):
            events.append("callbacks")
            yield 7

    ranges.wrap_dynamo(SimpleNamespace(CompilationCallbackHandler=CompilationCallbackHandler))
    with CompilationCallbackHandler().install_callbacks() as value:
        assert value == 7
    assert events == ["nsysprof compile dynamo unknown (:0)", "callbacks", "pop"]


def test_a_version_without_what_is_wrapped_runs_on_and_says_what_is_missing(capsys, monkeypatch):
    ranges, events = recorder()
    for name in ("torch._dynamo.callback", "triton.compiler.compiler"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace())
    ranges.begin()
    said = capsys.readouterr().err
    assert "the program's compilations by torch._dynamo.callback are not recorded: AttributeError" in said
    assert "the program's compilations by triton.compiler.compiler are not recorded" in said
    assert events == []


@pytest.mark.parametrize("path", ["a (b): c.py", "x" * 900, "two\nlines.py", "", "not\udc80utf8.py"])
def test_any_text_is_one_range_that_is_read_again(path):
    ranges, events = recorder()
    code = add_kernel.__code__.replace(co_filename=path)
    kernel = SimpleNamespace(__name__="a kernel (of mine)", __code__=code)
    module = SimpleNamespace(compile=lambda _source: nullcontext())
    ranges.wrap_triton(module)
    module.compile(SimpleNamespace(fn=kernel, constants={0: "a\nb: (c.py:3)"}))
    compiled = read_compile_range(events[0].encode().decode())
    assert compiled.what == "a_kernel_of_mine"
    assert len(events[0]) < 1000
