"""The diff of a program for a set of remedies, and the command that needs none."""

import subprocess
import sys

import pytest

from nsysprof.app.measuring.program_request import ProgramSide
from nsysprof.app.optimizing.code_diff import command_of, diff_of
from nsysprof.app.optimizing.remedies import read_remedies
from nsysprof.app.optimizing.trials import Trial
from nsysprof.results.program_runs import ProgramTraits

PROGRAM = """import torch
torch.backends.cuda.matmul.allow_tf32 = False

def main():
    model = torch.nn.Linear(4, 4)
    model = model.to("cpu")
    optimizer = torch.optim.Adam(
        model.parameters(),
        lr=1e-3,
    )
    loader = torch.utils.data.DataLoader([torch.ones(4)])
    for step, x in enumerate(loader):
        optimizer.zero_grad(set_to_none=False)
        model(x).sum().backward()
        optimizer.step()

main()
"""


def trial(name):
    remedy = read_remedies()[name]
    return Trial(
        remedy.title, "", remedy.side(), "", remedy.paste(), kind=remedy.kind, precision=remedy.precision,
        edit=remedy.edit,
    )  # fmt: skip


@pytest.fixture
def program(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    traits = ProgramTraits(
        settings=(("matmul", "highest", f"{path}:2"),),
        modules=({"place": f"{path}:14"},),
        optimizers=({"place": f"{path}:7"},),
        loaders=({"place": f"{path}:11"},),
        zeroing=(f"{path}:13",),
    )
    return path, traits


def test_a_diff_changes_each_line_where_a_remedy_belongs_and_the_program_still_runs(program):
    path, traits = program
    names = ("tf32", "compile", "fused-optimizer", "free-gradients", "loader-workers", "cudnn-benchmark")
    diff = diff_of([trial(name) for name in names], traits, (sys.executable, "train.py"))
    added = [line[1:].strip() for line in diff.splitlines() if line.startswith("+") and not line.startswith("+++")]
    assert added == [
        "torch.backends.cudnn.benchmark = True",
        "torch.backends.cuda.matmul.allow_tf32 = True",
        "model.forward = torch.compile(model.forward)",
        "fused=True)",
        "loader = torch.utils.data.DataLoader([torch.ones(4)], num_workers=2, persistent_workers=True)",
        "optimizer.zero_grad(set_to_none=True)",
    ]
    done = subprocess.run(["patch", "-p1"], input=diff, text=True, cwd=path.parent, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout
    compile(path.read_text(), "train.py", "exec")


def test_files_of_libraries_and_unknown_places_are_left_alone(program):
    path, traits = program
    elsewhere = ProgramTraits(optimizers=({"place": "/usr/lib/python3/site.py:3"}, {"place": ""}))
    assert diff_of([trial("fused-optimizer")], elsewhere, ("train.py",)) == ""
    assert diff_of([trial("compile")], None, ("train.py",)) == ""
    path.write_text("def broken(:\n")
    assert diff_of([trial("compile"), trial("fused-optimizer")], traits, ("train.py",)) == ""


def test_the_command_has_all_switches_and_needs_no_change_of_the_code(tmp_path):
    policy = Trial("the policy", "", ProgramSide(policy=tmp_path), "nsysprof run --policy out/p.json -- PROGRAM", "")
    setting = Trial("a", "", ProgramSide((("A", "1 2"),)), "", "")
    assert command_of([trial("tf32"), policy, trial("compile"), setting], ("python", "train.py")) == (
        "A='1 2' nsysprof run --remedies tf32,compile --policy out/p.json -- python train.py"
    )
    assert command_of([setting], ("python", "train.py")) == "A='1 2' python train.py"
