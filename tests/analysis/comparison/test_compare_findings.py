"""Findings that appear or vanish between two traces, and the gate on them."""

import json
import subprocess
import sys

import pytest

from nsysprof.analysis.comparison.compare import compare_findings
from nsysprof.analysis.comparison.gate.gate import parse_gate
from nsysprof.errors import UsageError
from tests.analysis.programs import train


def test_findings_appear_vanish_or_stay():
    old = [{("sync", "a"): 5, ("module-load", ""): 1}, {("sync", "a"): 7}]
    new = [{("sync", "a"): 6, ("pageable-copy", "load"): 9}]
    found = [(each.code, each.how, each.baseline_ns, each.candidate_ns) for each in compare_findings(old, new)]
    assert found == [
        ("pageable-copy", "appeared", None, 9), ("module-load", "vanished", 1, None), ("sync", "both", 7, 6),
    ]  # fmt: skip


def test_the_rule_of_a_gate_names_a_code():
    (rule,) = parse_gate("finding:pageable-copy")
    assert (rule.metric, rule.code) == ("finding", "pageable-copy")
    assert len(parse_gate("finding:sync,finding:any,slower:3%")) == 3
    for wrong in ("finding:slow", "finding:", "finding:sync,finding:sync"):
        with pytest.raises(UsageError):
            parse_gate(wrong)


def test_the_gate_fails_for_a_finding_that_appeared(tmp_path):
    clean = train()[0].write(tmp_path / "clean.sqlite")
    slow = train(faults=("sync",))[0].write(tmp_path / "slow.sqlite")

    def compare(old, new, rule):
        command = [sys.executable, "-m", "nsysprof", "compare", str(old), str(new), "--fail-on", rule, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, json.loads(done.stdout)

    code, data = compare(clean, slow, "finding:sync")
    assert code == 1
    assert [(each["code"], each["how"]) for each in data["findings"]] == [("sync", "appeared")]
    assert compare(slow, clean, "finding:any")[0] == 0
