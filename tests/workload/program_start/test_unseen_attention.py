"""Libraries whose C++ code names torch's attention are found among those that a process has mapped, and no others."""

import mmap
import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from nsysprof.workload.program_start import unseen_attention
from nsysprof.workload.program_start.unseen_attention import libraries_with_attention
from tests.workload.program_start.test_attention_hook import run

SYMBOL = b"_ZN2at4_ops28scaled_dot_product_attention4callERKNS_6TensorE"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture
def mapped(tmp_path, monkeypatch):
    """Return a function that maps a library with these bytes into this process until the test ends.

    What the process has mapped before, such as torch for another test, is looked at as a library of the system.
    """
    before = unseen_attention._mapped_libraries("/no/torch")
    monkeypatch.setattr(unseen_attention, "_SYSTEM", (*unseen_attention._SYSTEM, *before))
    opened = []

    def add(name: str, content: bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        with path.open("rb") as file:
            opened.append(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
        return path

    yield add
    for each in opened:
        each.close()


def found(folder: Path, torch_folder: str = "/no/torch") -> list[str]:
    return libraries_with_attention(torch_folder, lambda path: path.replace(f"{folder}/", ""))


def test_a_library_that_names_an_operator_is_found(mapped, tmp_path, monkeypatch):
    monkeypatch.setattr(unseen_attention, "_PIECE", 256)
    mapped("extension.so", b"-" * 240 + SYMBOL + b"-" * 500)  # across two pieces
    mapped("torchinductor_me/ab/cab.so", b"aoti_torch_cpu__scaled_dot_product_flash_attention_for_cpu")
    mapped("words.so", b"the documentation of scaled_dot_product_attention")
    mapped("torch/lib/libtorch_cpu.so", SYMBOL)
    mapped("nvidia/cudnn/lib/libcudnn.so.9", SYMBOL)
    assert found(tmp_path, str(tmp_path / "torch")) == ["code that torch.compile wrote in C++", "extension.so"]


def test_a_library_that_was_deleted_or_is_too_large_is_left_out(mapped, tmp_path, monkeypatch):
    mapped("gone.so", SYMBOL).unlink()
    assert found(tmp_path) == []
    mapped("large.so", SYMBOL)
    monkeypatch.setattr(unseen_attention, "_MOST_BYTES", 3)
    assert found(tmp_path) == []


PROGRAM = """
import torch
from torch.utils.cpp_extension import load_inline
source = "at::Tensor attend(at::Tensor q) { return at::scaled_dot_product_attention(q, q, q); }"
built = load_inline("by_hand", source, functions=["attend"], build_directory=".")
print(tuple(built.attend(torch.randn(1, 2, 16, 8)).shape))
"""


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.skipif(not (shutil.which("g++") and shutil.which("ninja")), reason="needs g++ and ninja")
def test_a_real_extension_is_named(tmp_path: Path) -> None:
    """torch.utils.cpp_extension compiles it, which takes a minute."""
    calls, said, notes = run(tmp_path, PROGRAM)
    assert (calls, "(1, 2, 16, 8)" in said) == ([], True)
    assert [note.code for note in notes] == ["no-attention", "attention-unseen"]
    assert notes[1].text.endswith("cannot see it: by_hand.so.")


@pytest.mark.parametrize(
    ("asker", "is_seen"), [("torch/jit/_script.py", True), ("torch/fx/operator_schemas.py", False)]
)
def test_only_a_script_makes_torch_jit_run_attention_in_cpp(
    asker: str, is_seen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    builtins = SimpleNamespace(_find_builtin=lambda function: "aten::scaled_dot_product_attention")
    monkeypatch.setitem(sys.modules, "torch.jit._builtins", builtins)
    seen: list[bool] = []
    unseen_attention.watch_scripts(lambda: seen.append(True))
    asked = eval(compile("find(None)", asker.replace("/", os.sep), "eval"), {"find": builtins._find_builtin})
    assert asked == "aten::scaled_dot_product_attention"
    assert bool(seen) == is_seen
