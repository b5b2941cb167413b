"""`nsysprof run --remedies`: a program of torch runs with them, and what is not in force is told."""

import sys

import pytest

from tests.builders import run_command

PROGRAM = """
import torch
layer = torch.nn.Linear(4, 4)
optimizer = torch.optim.Adam(layer.parameters())
for step in range(4):
    layer(torch.ones(2, 4)).sum().backward()
    optimizer.step()
print(torch.get_float32_matmul_precision(), optimizer.param_groups[0]["fused"])
raise SystemExit(3)
"""


def test_remedies_are_applied_without_a_change_of_the_code(tmp_path):
    pytest.importorskip("torch", reason="needs the extra [torch]")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    remedies = "tf32,optimizer=fused,channels_last"
    done = run_command.run("run", "--remedies", remedies, "--", sys.executable, program)
    assert (done.returncode, done.stdout.split()) == (3, ["high", "True"])
    assert "nsysprof remedies: channels_last is not in force: the program has no nn.Conv2d" in done.stderr
    assert "tf32" not in done.stderr


@pytest.mark.parametrize(
    ("options", "says"),
    [(["--remedies", "warp"], "There is no remedy warp"), ([], "There is nothing to run the program with")],
)
def test_what_cannot_be_applied_is_refused(options, says):
    done = run_command.run("run", *options, "--", "true")
    assert done.returncode == 2
    assert says in done.stderr


def test_a_dry_run_says_what_it_would_apply():
    done = run_command.run("run", "--remedies", "tf32", "--dry-run", "--", "true")
    assert (done.returncode, done.stdout.strip()) == (0, "true, with tf32")
