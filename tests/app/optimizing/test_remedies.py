"""The table of remedies, and which of them a program can use."""

import re
from pathlib import Path

import pytest

from nsysprof.app.optimizing.remedies import _NEEDS, Circumstances, read_remedies, why_not
from nsysprof.results.findings import CODES, MEMORY_CODES
from nsysprof.results.program_runs import ProgramTraits

ROOT = Path(__file__).parents[3]
MODULE = {
    "kind": "Net", "place": "train.py:5", "device": "cuda", "is_fp32": True, "is_autocast": False,
    "is_compiled": False, "is_random": False, "convolutions": 2, "channels_last": 0,
}  # fmt: skip
ADAM = {"kind": "Adam", "place": "", "device": "cuda", "fused": None, "foreach": None}
ADAM |= {"has_fused": True, "has_foreach": True, "tensors": 4}
# Codes that other findings have, besides those of a trace.
LATER = ("exposed-communication", "redundant-communication", "small-messages", "python-gc")


def possible(traits, **around):
    circumstances = Circumstances(traits, **around)
    return {name for name, remedy in read_remedies().items() if not why_not(remedy, circumstances)}


def test_every_remedy_names_known_findings_needs_and_a_switch_that_the_start_code_has():
    source = (ROOT / "nsysprof/workload/program_start/applied_remedies/watch_program.py").read_text()
    switches = {*re.findall(r'"(\w+)": lambda: ', source)}
    for remedy in read_remedies().values():
        assert {*remedy.answers} <= {*CODES, *MEMORY_CODES, *LATER}
        assert {*remedy.needs} <= {*_NEEDS, "finding"}
        assert bool(remedy.switch) + bool(remedy.variables) + bool(remedy.arguments) == 1
        assert not remedy.switch or remedy.switch.partition("=")[0] in switches
        assert remedy.precision in ("same", "random", "tf32", "bf16")
        assert remedy.edit in ("", "import", "setting", "model", "optimizer", "loader", "ddp")
        assert remedy.paste()
        assert remedy.changes
        assert remedy.unless


def test_a_training_on_a_gpu_can_use_what_its_traits_leave_open():
    traits = ProgramTraits(modules=(MODULE,), optimizers=(ADAM,), flags={"matmul": "highest", "cudnn.benchmark": False})
    assert possible(traits) == {
        "tf32", "compile", "compile-max-autotune", "channels-last", "cudnn-benchmark", "fused-optimizer",
    }  # fmt: skip
    assert "compile-reduce-overhead" in possible(traits, findings=["launch-bound"])
    assert "autocast" in possible(traits, allow_precision=True)
    assert "expandable-segments" in possible(traits, findings=["alloc-in-loop"])


def test_gradients_can_be_reduced_once_where_a_step_has_many_passes():
    wrapped = ({"place": "", "bucket_bytes": 25 << 20, "is_view": False},)
    for calls, is_possible in ((40, True), (10, False)):
        traits = ProgramTraits(wrapped=wrapped, optimizer_steps=10, outer_calls=calls)
        assert ("ddp-no-sync" in possible(traits)) == is_possible


@pytest.mark.parametrize(
    ("change", "lost"),
    [
        ({"is_fp32": False}, "tf32"),
        ({"is_compiled": True}, "compile"),
        ({"channels_last": 2}, "channels-last"),
        ({"device": "cpu"}, "cudnn-benchmark"),
    ],
)
def test_what_the_program_has_already_is_not_tried(change, lost):
    traits = ProgramTraits(modules=({**MODULE, **change},), optimizers=({**ADAM, "device": "cpu"},))
    assert lost not in possible(traits)
    assert why_not(read_remedies()[lost], Circumstances(traits))


def test_a_program_that_tells_nothing_of_itself_can_use_only_its_command():
    assert possible(None) == set()
    assert possible(None, argv=("/usr/bin/vllm", "serve", "model")) == {"vllm-flashinfer"}


def test_a_garbage_collector_is_frozen_only_where_it_takes_time():
    assert possible(ProgramTraits(garbage_ns=10_000_000), steps_ns=1_000_000_000) == {"freeze-garbage"}
    assert possible(ProgramTraits(garbage_ns=1_000_000), steps_ns=1_000_000_000) == set()


def test_the_page_lists_every_remedy():
    page = (ROOT / "docs/optimize.md").read_text()
    missing = [remedy.title for remedy in read_remedies().values() if f"| {remedy.title} | `" not in page]
    assert missing == []


@pytest.mark.parametrize(("share", "wanted"), [(5.0, True), (4.9, False)])
def test_tf32_is_worth_trying_from_five_percent_of_plain_products_on(share, wanted):
    assert ("tf32" in possible(ProgramTraits(), fp32_share_pct=share)) is wanted
