"""`nsysprof explain` as a user runs it, on the CPU."""

import os
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("torch", reason="needs the extra [torch]")

from nsysprof.attention.mask import BACKENDS
from tests.builders.published_schema import as_published
from tests.builders.registering import register
from tests.builders.run_command import fails, run

CPU = ("--device", "cpu", "--seq", "16")


def explain(*arguments):
    done = run("explain", *CPU, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "no warning of torch's reaches the terminal"
    return as_published("explain", done.stdout)


def by_backend(shape):
    return {each["backend"]: each for each in shape["backends"]}


@pytest.fixture(scope="module")
def wide():
    """Return the answers at head dimension 8192."""
    return explain("--head-dim", "8192", "--heads", "1")


def test_every_backend_is_answered_and_what_needs_a_gpu_is_unknown(wide):
    assert wide["environment"]["device"] == "cpu"
    (shape,) = wide["shapes"]
    answers = by_backend(shape)
    assert list(answers) == list(BACKENDS)
    assert {name for name, each in answers.items() if each["eligible"] is None} == {"efficient", "cudnn"}
    for name in ("efficient", "cudnn"):
        assert "needs a GPU" in answers[name]["reason"]
        assert answers[name]["ran"]["status"] == "not_run"
        assert answers[name]["ran"]["family"] is None
        assert answers[name]["supported"] is None
    assert shape["call"]["kv_seq"] == 16


def test_what_really_ran_is_read_from_the_operators(wide):
    (shape,) = wide["shapes"]
    ran = {name: each["ran"] for name, each in by_backend(shape).items()}
    assert ran["math"]["operator"] == "aten::_scaled_dot_product_attention_math"
    assert ran["flash"]["operator"] == "aten::_scaled_dot_product_flash_attention_for_cpu"
    assert ran["naive"]["operator"] is None, "it is not torch's attention"
    assert {name: each["family"] for name, each in ran.items() if each["status"] == "ok"} == {
        "math": "math", "flash": "flash", "auto": "flash", "naive": "math",
    }  # fmt: skip
    assert by_backend(shape)["auto"]["predicted"] == "flash"


def test_a_refusal_is_data_and_comes_with_what_passes():
    (shape,) = explain("--dropout", "0.1", "--backends", "flash,auto")["shapes"]
    flash, auto = shape["backends"]
    assert flash["eligible"] is False
    (constraint,) = flash["constraints"]
    assert (constraint["property"], constraint["value"], constraint["bound"]) == ("dropout", 0.1, 0)
    assert constraint["text"] == "Both fused kernels do not support non-zero dropout."
    assert flash["nearest"][0]["changes"] == {"dropout": {"from": 0.1, "to": 0.0}}
    assert flash["ran"]["status"] == "not_run"
    assert (auto["predicted"], auto["ran"]["family"], auto["ran"]["as_asked"]) == ("math", "math", True)


def test_a_mask_that_needs_a_gradient_is_refused_for_that_reason():
    """Torch gives no reason, and takes the same mask without a gradient."""
    (shape,) = explain("--mask", "learned", "--pass", "bwd", "--backends", "flash,auto")["shapes"]
    flash, auto = shape["backends"]
    assert (flash["eligible"], auto["ran"]["family"]) == (False, "math")
    assert [each["property"] for each in flash["constraints"]] == ["mask"]
    assert flash["nearest"][0]["changes"] == {"mask": {"from": "learned", "to": "float"}}


def test_several_shapes_are_several_blocks():
    done = run("explain", *CPU, "--backends", "naive", "--head-dim", "8,16", "--dtype", "fp32,bf16", "--mask", "bool")
    titles = [line.strip() for line in done.stdout.splitlines() if line.startswith("B=")]
    ends = ["D=8 fp32", "D=8 bf16", "D=16 fp32", "D=16 bf16"]
    assert titles == [f"B=1 H=8 S=16 {end} full mask=bool fwd" for end in ends]


@pytest.mark.slow
def test_windows_and_batches_are_shapes_like_others():
    done = run("explain", "--device", "cpu", "--backends", "math,flash", "--batch-spec", "2q8_4q1s32,q8s32", "--json")
    shapes = as_published("explain", done.stdout)["shapes"]
    assert [(shape["call"]["seq"], shape["call"]["kv_seq"], shape["call"]["mask"]) for shape in shapes] == [
        (8, 8, "none"), (1, 32, "none"), (8, 32, "window:all:0")
    ]  # fmt: skip
    assert all(backend["ran"]["as_asked"] for shape in shapes for backend in shape["backends"])
    (window,) = explain("--backends", "naive,flex", "--seq", "16", "--window", "4,0")["shapes"]
    assert [backend["ran"]["status"] for backend in window["backends"]] == ["ok", "ok"]


def test_the_terminal_says_what_is_unknown_and_no_more():
    done = run("explain", *CPU, "--backends", "flash,cudnn,auto", "--dropout", "0.1")
    assert done.returncode == 0
    assert done.stderr == ""
    assert "No GPU was used" in done.stdout
    assert "cudnn: unknown: needs a GPU" in done.stdout
    assert "flash: passes with dropout 0" in done.stdout
    assert "auto: predicted math, ran math" in done.stdout
    assert "UserWarning" not in done.stdout
    assert "Triggered internally" not in done.stdout


def test_too_large_for_the_memory_is_not_ineligible():
    (shape,) = explain("--backends", "naive,flash", "--seq", "2000000", "--head-dim", "65536")["shapes"]
    naive, flash = shape["backends"]
    assert (naive["eligible"], naive["ran"]["status"]) == (True, "out_of_memory")
    assert flash["eligible"] is None, "the check could not be asked"
    assert "do not fit" in flash["reason"]


OWN = """
from nsysprof.workload.refusal import IneligibleError
from torch.nn.functional import scaled_dot_product_attention

def plain(q, k, v, is_causal):
    return scaled_dot_product_attention(q, k, v, is_causal=is_causal)

def picky(q, k, v, is_causal):
    raise IneligibleError("head_dim must be 7")

def wrong(q, k, v, is_causal):
    return q[:1, :1]
"""


def test_backends_of_ones_own_are_answered_by_running_them(tmp_path, monkeypatch):
    """A name that a package registers, and module:function, each as bench takes it."""
    (tmp_path / "ownbackends.py").write_text(OWN)
    register(monkeypatch, tmp_path, {"mine": "ownbackends:plain"})
    names = ("mine", "ownbackends:picky", "ownbackends:wrong", "ownbackends:gone", "nowhere:at_all")
    (shape,) = explain("--backends", ",".join(names))["shapes"]
    mine, picky, wrong, gone, nowhere = shape["backends"]
    assert (mine["eligible"], mine["ran"]["status"], mine["ran"]["as_asked"]) == (True, "ok", None)
    assert mine["ran"]["operator"] == "aten::_scaled_dot_product_flash_attention_for_cpu"
    assert (picky["eligible"], picky["reason"]) == (False, "head_dim must be 7")
    assert (wrong["eligible"], "returned the shape" in wrong["reason"]) == (None, True)
    assert "has no gone" in gone["reason"]
    assert "cannot be imported" in nowhere["reason"]


def test_a_backend_of_ones_own_takes_no_dropout(tmp_path, monkeypatch):
    (tmp_path / "ownbackends.py").write_text(OWN)
    register(monkeypatch, tmp_path, {"mine": "ownbackends:plain"})
    (shape,) = explain("--backends", "mine", "--dropout", "0.1")["shapes"]
    (mine,) = shape["backends"]
    assert (mine["eligible"], mine["ran"]["status"]) == (False, "not_run")
    assert "without dropout" in mine["reason"]


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (("--backends", "quick"), 2, "Unknown backend 'quick'"),
        (("--backends", "flahs"), 2, "Did you mean 'flash'?"),
        (("--backends", ","), 2, "is empty"),
        (("--seq", "0"), 2, "--seq 0"),
        (("--kv-seq", "-1"), 2, "--kv-seq -1"),
        (("--head-dim", "wide"), 2, "not an integer"),
        (("--dtype", "int8"), 2, "Unknown dtype"),
        (("--pass", "fwdbwd"), 2, "Unknown pass"),
        (("--mask", "round"), 2, "not one of"),
        (("--dropout", "1"), 2, "--dropout 1"),
        (("--dropout", "nan"), 2, "--dropout"),
        (("--heads", "8", "--kv-heads", "3"), 2, "cannot be shared"),
        (("--causal", "yes", "--mask", "bool"), 2, "exclude each other"),
        (("--case-timeout", "0"), 2, "'--case-timeout'"),
        (("--device", "tpu"), 2, "not one of"),
    ],
)
def test_bad_arguments_are_refused_with_the_next_step(arguments, code, word):
    fails(run("explain", *arguments), code, word)


def test_without_a_gpu_cuda_is_refused():
    fails(run("explain", "--device", "cuda", env={**os.environ, "CUDA_VISIBLE_DEVICES": ""}), 5, "no NVIDIA GPU")


def test_without_torch_it_says_which_line_installs_it():
    code = (
        "import importlib.util, sys; importlib.util.find_spec = lambda name: None\n"
        "sys.argv = ['nsysprof', 'explain', '--device', 'cpu']\n"
        "from nsysprof.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    fails(done, 5, "torch", "nsysprof[torch]")


def test_a_torch_that_cannot_be_imported(tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('libtorch.so: cannot open shared object file')")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = run("explain", *CPU, env={**os.environ, "PYTHONPATH": path})
    fails(done, 5, "torch cannot be imported", "libtorch.so")


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_an_interruption_leaves_no_process_behind(tmp_path):
    (tmp_path / "torch.py").write_text(
        "import os, pathlib, time\n"
        f"pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(os.getpid()))\n"
        "time.sleep(600)"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    process = subprocess.Popen(
        [sys.executable, "-m", "nsysprof", "explain", *CPU], env=env, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not ((tmp_path / "pid").exists() and (tmp_path / "pid").read_text()):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Interrupted" in stderr
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
