"""Real programs with NSYSPROF_POLICY: by `nsysprof run`, and by the line that an installation leaves for Python."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs the extra [torch]")

from nsysprof.attention.policy_file import PolicyFile, PolicyRule, write_policy  # noqa: E402
from tests.builders import run_command  # noqa: E402
from tests.builders.published_schema import as_published  # noqa: E402
from tests.builders.run_command import fails  # noqa: E402

ROOT = Path(__file__).parents[3]
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
def test_the_line_of_an_installation_applies_it_too(policy, tmp_path):
    """A site-packages folder with the .pth file in it, as pip leaves it; and a torch that crashes nothing."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "nsysprof_policy.pth").write_text((ROOT / "nsysprof_policy.pth").read_text())
    code = f"import site, runpy; site.addsitedir({str(site)!r}); runpy.run_path({str(tmp_path / 'program.py')!r})"
    path = policy()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NSYSPROF_POLICY_REPORT": str(tmp_path)}
    for value, uses in ((str(path), 1), ("", 1), (str(tmp_path / "none.json"), 2)):
        argv = [sys.executable, "-c", code]
        env = {**environment, "NSYSPROF_POLICY": value}
        done = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
        assert "sum" in done.stdout
        assert ("cannot be read" in done.stderr) == (uses == 2)
        assert len(list(tmp_path.glob("policy-*.json"))) == uses


def test_run_refuses_what_is_no_policy_or_no_program(policy, tmp_path):
    bad = tmp_path / "bad.json"
    bad.write_text("{}")
    fails(run_command.run("run", "--policy", bad, "--", "true"), 14, "is not a policy of nsysprof")
    fails(run_command.run("run", "--policy", policy(), "--", "no-such-program"), 2, "was not found")
