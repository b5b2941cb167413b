"""What a captured program's environment gets: the hook where something is recorded or applied, and nothing else."""

import os
import subprocess
import sys

import pytest

from nsysprof.capture.user_program.program_hook import HOOK_FOLDER, collect_recorded, hook_environment, hook_path

PROGRAM = """
import transformers.modeling_utils as models
print(models.PreTrainedModel(models.Config()).config._attn_implementation)
"""
MODULE = """
class Config:
    _attn_implementation = "eager"

class PreTrainedModel:
    _supports_sdpa = True

    def __init__(self, config):
        self.config = config
"""


@pytest.mark.parametrize("name", ["NSYSPROF_POLICY", "NSYSPROF_ATTN_IMPLEMENTATION"])
def test_what_the_environment_names_is_applied_where_nothing_is_recorded(tmp_path, name):
    given = {"PYTHONPATH": "a", "NSYSPROF_GC": "0", "NSYSPROF_COMPILES": "0", "NSYSPROF_LOADERS": "0"}
    assert hook_environment(tmp_path / "nsys", given, ()) == {}
    found = hook_environment(tmp_path / "nsys", {**given, name: "x"}, ())
    assert found == {"PYTHONPATH": os.pathsep.join([str(HOOK_FOLDER), "a"])}


@pytest.mark.parametrize("left_out", ["", "NSYSPROF_GC", "NSYSPROF_COMPILES", "NSYSPROF_LOADERS"])
def test_collections_compilations_and_batches_are_recorded_unless_the_environment_says_no(tmp_path, left_out):
    found = hook_environment(tmp_path / "nsys", {"PYTHONPATH": "a", left_out: "0"}, ())
    assert found.pop("PYTHONPATH") == os.pathsep.join([str(HOOK_FOLDER), "a"])
    assert found == dict.fromkeys({"NSYSPROF_GC", "NSYSPROF_COMPILES", "NSYSPROF_LOADERS"} - {left_out}, "1")


@pytest.mark.parametrize("is_hooked", [True, False])
def test_an_attn_implementation_is_for_the_programs_of_our_commands_and_their_children(tmp_path, is_hooked):
    (tmp_path / "transformers").mkdir()
    (tmp_path / "transformers" / "__init__.py").touch()
    (tmp_path / "transformers" / "modeling_utils.py").write_text(MODULE)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "NSYSPROF_ATTN_IMPLEMENTATION": "sdpa"}
    environment |= hook_environment(tmp_path / "nsys", environment, ()) if is_hooked else {}
    launcher = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {PROGRAM!r}], check=True)"
    done = subprocess.run(
        [sys.executable, "-c", launcher], env=environment, capture_output=True, text=True, check=True
    )  # fmt: skip
    assert done.stdout.strip() == ("sdpa" if is_hooked else "eager")


def test_the_start_code_stands_first_once_and_the_rest_of_the_path_stays():
    hook = str(HOOK_FOLDER)
    assert hook_path({}) == hook_path({"PYTHONPATH": ""}) == {"PYTHONPATH": hook}
    assert hook_path({"PYTHONPATH": f"a:{hook}::b"}) == {"PYTHONPATH": f"{hook}:a::b"}, "an empty part: this folder"


# What a stand-in for torch has in each case, and what the program is told that it lacks.
TORCH = """
import types
version = types.SimpleNamespace(cuda="13.0")
compiler = types.SimpleNamespace(is_compiling=lambda: False)
class Module:
    def __call__(self):
        return 7
nn = types.SimpleNamespace(Module=Module)
cuda = types.SimpleNamespace(is_initialized=lambda: True, is_current_stream_capturing=lambda: False)
"""
GRAPHS = """
class CUDAGraph:
    def capture_begin(self): ...
    def capture_end(self): ...
cuda.CUDAGraph = CUDAGraph
"""


@pytest.mark.parametrize(
    ("torch", "told"),
    [
        (None, ""),
        (TORCH.replace('"13.0"', "None"), ""),
        (TORCH, "operators of CUDA graphs are not recorded: AttributeError: ..."),
        (TORCH + GRAPHS, "operators are not recorded: AttributeError: ...has no attribute 'nvtx'"),
    ],
    ids=["no torch", "torch without CUDA", "a torch without graphs", "a torch without NVTX"],
)  # fmt: skip
def test_a_program_without_torch_or_a_piece_of_it_runs_and_says_what_is_missing(tmp_path, torch, told):
    (tmp_path / "own").mkdir()
    if torch is not None:
        (tmp_path / "own/torch.py").write_text(torch)
    program = "import torch\nmodel = torch.nn.Module()\nprint(sum(model() for _ in range(12)))"
    report = tmp_path / "nsys"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "own")}
    environment |= hook_environment(report, environment, ("operators",))
    command = [sys.executable, "-c", "print(84)" if torch is None else program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "84"
    for part in told.split("..."):
        assert part in done.stderr
    assert bool(done.stderr) == bool(told)
    assert [note.code for note in collect_recorded(report, ("operators",))] == ["no-operators"]
