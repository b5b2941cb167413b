"""Real programs with NSYSPROF_POLICY, by `nsysprof run`."""

import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="needs the extra [torch]")

from nsysprof.attention.policy_file import PolicyFile, PolicyRule, write_policy  # noqa: E402
from nsysprof.capture.user_program.policy_environment import policy_environment  # noqa: E402
from tests.builders import run_command  # noqa: E402
from tests.builders.published_schema import as_published  # noqa: E402
from tests.builders.run_command import fails  # noqa: E402

PROGRAM = """
from torch.nn.functional import scaled_dot_product_attention  # imported before any block could begin
import torch
torch.manual_seed(0)
q = torch.randn(2, 4, 32, 16)
for _ in range(3):
    out = scaled_dot_product_attention(q, q, q, is_causal=True)
print("sum", float(out.sum()))
"""


@pytest.fixture
def policy(tmp_path):
    """Return a function that writes a policy for the program's shape."""

    def write(**fields):
        rule = PolicyRule("math", batch=2, heads=4, seq=32, head_dim=16, dtype="fp32")
        machine = {"device": "cpu", "gpu_name": None, "torch_version": str(torch.__version__), "cudnn_version": None}
        write_policy(tmp_path / "p.json", PolicyFile((rule,), **{**machine, **fields}))
        (tmp_path / "program.py").write_text(PROGRAM)
        return tmp_path / "p.json"

    return write


def test_run_applies_a_policy_to_a_program_as_it_is(policy, tmp_path):
    path = policy()
    done = run_command.run("run", "--policy", path, "--", sys.executable, tmp_path / "program.py")
    assert done.returncode == 0, done.stderr
    assert "nsysprof: 3 calls ran as tuned, 0 were left to torch; first calls differ" in done.stderr


@pytest.mark.slow
def test_run_says_why_nothing_was_applied_and_keeps_the_exit_code(policy, tmp_path):
    path = policy(torch_version="1.0")
    (tmp_path / "program.py").write_text(f"{PROGRAM}\nraise SystemExit(7)")
    done = run_command.run("run", "--policy", path, "--json", "--", sys.executable, tmp_path / "program.py")
    assert done.returncode == 7
    assert f"torch is {torch.__version__}, tuned on 1.0" in done.stderr
    data = as_published("run", done.stdout)
    assert (data["exit_code"], data["processes"], data["use"]["calls"]) == (7, 1, 0)
    assert "tuned on 1.0" in data["use"]["reasons"][0]
    assert "sum" in done.stderr, "the program's output"
    told = run_command.run("run", "--policy", path, "--", sys.executable, tmp_path / "program.py").stderr
    assert "nsysprof: the policy was not in force" in told


@pytest.mark.slow
def test_the_policy_holds_in_the_pythons_that_a_program_starts(policy, tmp_path):
    """A launcher that imports no torch starts two programs, as torchrun does; each reports on its own calls."""
    launcher = tmp_path / "launcher.py"
    launcher.write_text(
        "import subprocess, sys\n"
        f"for _ in range(2):\n    subprocess.run([sys.executable, {str(tmp_path / 'program.py')!r}], check=True)\n"
    )
    done = run_command.run("run", "--policy", policy(), "--json", "--", sys.executable, launcher)
    assert done.returncode == 0, done.stderr
    data = as_published("run", done.stdout)
    assert (data["processes"], data["use"]["calls"], data["use"]["left"]) == (2, 6, 0)


def test_a_damaged_policy_under_another_command_leaves_the_program_as_it_is(policy, tmp_path):
    policy()
    env = {**os.environ, **policy_environment(tmp_path / "none.json", os.environ, tmp_path)}
    done = subprocess.run(
        [sys.executable, tmp_path / "program.py"], env=env, capture_output=True, text=True, check=True
    )
    assert "sum" in done.stdout
    assert "cannot be read" in done.stderr


def test_run_refuses_what_is_no_policy_or_no_program(policy, tmp_path):
    bad = tmp_path / "bad.json"
    bad.write_text("{}")
    fails(run_command.run("run", "--policy", bad, "--", "true"), 14, "is not a policy of nsysprof")
    fails(run_command.run("run", "--policy", policy(), "--", "no-such-program"), 2, "was not found")
