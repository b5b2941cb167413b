"""The fixture nsysprof_trace, in processes of their own as users run them."""

import subprocess
import sys

import pytest

from nsysprof.api.traced_block import TracedBlock, UnknownNumberError
from nsysprof.errors import UsageError
from tests.builders.record_with_nsys import record_nvtx

pytest_plugins = ["pytester"]
# Here and not in a test: pytester forgets what a test imported, and torch cannot be imported twice.
torch = pytest.importorskip("torch", reason="needs the extra [torch]")

HEAD = "import pytest, torch\n"


@pytest.fixture
def run(pytester, monkeypatch):
    for name in ("NSYS_PROFILING_SESSION_ID", "QUADD_INJECTION_PROXY"):
        monkeypatch.delenv(name, raising=False)

    def run(text, *arguments):
        pytester.makepyfile(HEAD + text)
        return pytester.runpytest_subprocess("-p", "no:cacheprovider", "-rs", *arguments)

    return run


def test_operators_of_a_block_are_counted(run):
    done = run(
        """
def test_it(nsysprof_trace):
    a = torch.randn(256, 256)
    with nsysprof_trace() as block:
        b = torch.softmax(a @ a, -1)
    a @ a
    assert block.work_kind == "operator"
    assert block.kernel_names == {"aten::mm": 1, "aten::_softmax": 1}
    block.assert_launches(2)
    block.assert_launches(at_least=1, at_most=2)
    block.assert_kernels(2, ran=["aten::mm", "softmax"], not_ran="bmm")
    block.assert_vram(at_most="512KiB")
    assert block.peak_bytes == 2 * 4 * 256 * 256
    assert block.busy_ns > 0
"""
    )
    done.assert_outcomes(passed=1)


def test_each_broken_assertion_fails_and_shows_what_ran(run):
    done = run(
        """
@pytest.fixture
def block(nsysprof_trace):
    a = torch.randn(64, 64)
    with nsysprof_trace() as block:
        (a @ a) + 1
    return block

def test_launches(block):
    block.assert_launches(1)

def test_kernels(block):
    block.assert_kernels(at_most=1)

def test_ran(block):
    block.assert_kernels(ran="flash")

def test_not_ran(block):
    block.assert_kernels(not_ran="aten::mm")

def test_memory(block):
    block.assert_vram(at_most=100)
"""
    )
    done.assert_outcomes(failed=5)
    done.stdout.fnmatch_lines(
        [
            "*2 launches (operators of torch, on the CPU), expected 1:*",
            "*1 x aten::*",
            "*2 kernels *, expected at most 1:*",
            "*no kernel has 'flash' in its name:*",
            "*'aten::mm' ran, which has 'aten::mm' in its name:*",
            "*bytes of memory at the peak, expected at most 100*",
        ]
    )


@pytest.mark.slow
def test_what_cannot_be_known_skips_and_never_passes(run):
    done = run(
        """
def test_bytes(nsysprof_trace):
    with nsysprof_trace() as block:
        torch.ones(3)
    block.assert_bytes(at_most=0)

def test_early(nsysprof_trace):
    with nsysprof_trace() as block:
        block.assert_launches(0)
"""
    )
    done.assert_outcomes(skipped=2)
    done.stdout.fnmatch_lines(["*on the CPU, only operators are recorded, and no copies*", "*the block has not ended*"])


@pytest.mark.slow
def test_a_test_that_wants_a_gpu_is_skipped_without_one(run):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    done = run(
        """
def test_it(nsysprof_trace):
    with nsysprof_trace(device="cuda"):
        raise AssertionError("ran")
"""
    )
    done.assert_outcomes(skipped=1)
    done.stdout.fnmatch_lines(["*nsysprof_trace: there is no GPU here*"])


@pytest.mark.slow
def test_an_exception_of_the_block_is_the_tests_own(run):
    done = run(
        """
def test_it(nsysprof_trace):
    with pytest.raises(ZeroDivisionError):
        with nsysprof_trace():
            1 / 0
    with nsysprof_trace() as again:
        torch.ones(3)
    again.assert_launches(at_least=1)
"""
    )
    done.assert_outcomes(passed=1)


def test_under_nsys_the_block_is_a_range_and_assertions_are_left_to_the_trace(run, monkeypatch):
    monkeypatch.setenv("NSYS_PROFILING_SESSION_ID", "7")
    done = run(
        """
def test_it(nsysprof_trace):
    with nsysprof_trace() as block:
        torch.ones(3)
    assert block.launches is None
    block.assert_launches(1)
"""
    )
    done.assert_outcomes(skipped=1)
    done.stdout.fnmatch_lines(["*nsys records this process; its trace has the range pytest::*::test_it*"])


@pytest.mark.nsys
def test_under_a_real_nsys(nsys, pytester, tmp_path):
    pytester.makepyfile(
        test_it=HEAD + "def test_one(nsysprof_trace):\n"
        "    for _ in range(2):\n        with nsysprof_trace() as block: torch.ones(3)\n    block.assert_launches(1)\n"
    )
    inner = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "test_it.py"]
    report, said = record_nvtx(nsys, tmp_path, inner, cwd=pytester.path)
    assert "1 skipped" in said, said
    from nsysprof import open_trace, read_ranges
    from nsysprof.trace.inputs.resolve_input import resolve_input

    with open_trace(resolve_input(report, nsys, tmp_path)) as trace:
        ranges = read_ranges(trace)
    names = ranges.loc[ranges["style"] == "StartEnd", "name"].tolist()
    assert names == ["pytest::test_it.py::test_one", "pytest::test_it.py::test_one#2"]


def test_without_torch_it_says_so_and_skips(run, pytester):
    pytester.makeconftest("import sys; sys.modules['torch'] = None")
    pytester.makepyfile("def test_it(nsysprof_trace):\n    with nsysprof_trace():\n        pass\n")
    done = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-rs")
    done.assert_outcomes(skipped=1)
    done.stdout.fnmatch_lines(["*pip install 'nsysprof?torch?'*"])


def test_a_run_that_does_not_use_it_loads_nothing_heavy(pytester):
    pytester.makepyfile("def test_it():\n    pass\n")
    code = (
        "import sys, pytest\n"
        "class Look:\n"
        "    def pytest_sessionfinish(self):\n"
        "        heavy = {'numpy', 'pandas', 'torch', 'scipy', 'nsysprof.api.traced_block'}\n"
        "        print('loaded:', sorted(heavy & set(sys.modules)), 'nsysprof.api.pytest_plugin' in sys.modules)\n"
        "sys.exit(pytest.main(['-p', 'no:cacheprovider', '-q'], plugins=[Look()]))\n"
    )
    text = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120).stdout
    assert "loaded: [] True" in text


def test_what_makes_no_sense_is_a_usage_error():
    block = TracedBlock("b", launches=3)
    with pytest.raises(UsageError):
        block.assert_launches()
    with pytest.raises(UsageError):
        block.assert_vram(at_most="many")
    with pytest.raises(UnknownNumberError):
        block.assert_kernels(ran="flash")


@pytest.mark.gpu
def test_a_block_on_a_gpu(nsysprof_trace):
    if not torch.cuda.is_available():
        pytest.skip("no GPU here")
    q = torch.randn(1, 8, 1024, 64, device="cuda", dtype=torch.float16)
    torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)
    flash = torch.nn.attention.SDPBackend.FLASH_ATTENTION
    with torch.nn.attention.sdpa_kernel(flash), nsysprof_trace("flash", device="cuda") as block:
        torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)
    block.assert_launches(at_least=1, at_most=2)
    block.assert_kernels(ran="flash", not_ran="cudnn")
    block.assert_bytes(at_most=0)
    block.assert_vram(at_most="8MiB")
    host = torch.ones(1 << 20)
    with nsysprof_trace("copy", device="cuda") as block:
        host.to("cuda")
    assert block.copied_bytes == 4 << 20
    block.assert_kernels(0)
    with pytest.raises(AssertionError, match="expected at most 1MiB"):
        block.assert_bytes(at_most="1MiB")
