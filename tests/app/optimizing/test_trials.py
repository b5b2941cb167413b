"""What is tried on a program, and what is only suggested."""

from pathlib import Path

import pytest

from nsysprof.analysis.attention_tuning.program_attention import ProgramFacts
from nsysprof.app.optimizing.trials import circumstances, list_not_tried, list_trials
from nsysprof.app.optimizing.tune_uses import TunedProgram
from nsysprof.results.program_runs import PredictedGain, ProgramTraits
from tests.app.optimizing.test_remedies import ADAM, MODULE

GAIN = PredictedGain(30.0, 25.0, 33.0, "step", "the finding unfused-attention")


def facts(*codes, libraries=(), fp32=0.0):
    return ProgramFacts((), 10.0, fp32, dict.fromkeys(codes, GAIN), frozenset(libraries))


def names(found):
    return [candidate.name for candidate in found]


def test_transformers_is_given_its_own_sdpa_with_the_gain_that_the_finding_predicts():
    program = facts("unfused-attention", libraries=["transformers"])
    (found,) = list_trials(program, TunedProgram(), "p.json", None, ())
    assert (found.setting, found.predicted) == ("", GAIN)
    assert found.side.variables == (("NSYSPROF_ATTN_IMPLEMENTATION", "sdpa"),)
    assert 'attn_implementation="sdpa"' in found.paste


def test_attention_by_hand_elsewhere_cannot_be_tried():
    assert list_trials(facts("unfused-attention", "unfused-optimizer"), TunedProgram(), "p.json", None, ()) == []


def test_what_a_finding_predicts_to_save_the_most_is_tried_first():
    traits = ProgramTraits(modules=(MODULE,), optimizers=(ADAM,), flags={"matmul": "highest"})
    program = facts("unfused-optimizer", fp32=40.0)
    found = list_trials(program, TunedProgram(), "p.json", None, (), circumstances(program, traits))
    assert names(found)[:3] == ["TF32", "the fused optimizer", "channels_last"]
    assert found[0].why == "40 % of the time of all kernels are matrix products in plain fp32"
    assert (found[1].why, found[1].predicted) == ("it answers unfused-optimizer", GAIN)
    assert found[2].predicted is None
    left = {item.name: item.reason for item in list_not_tried(circumstances(program, traits))}
    assert left["bf16 autocast"] == "it lowers the precision to bf16: needs --allow-precision"
    assert "TF32" not in left


def test_the_policy_goes_first_and_wishes_last():
    tuning = TunedProgram(policy=Path("tune/policy.json"))
    program = facts("alloc-in-loop", fp32=40.0)
    found = list_trials(program, tuning, "out/tune/policy.json", GAIN, ("A=1",))
    assert names(found) == ["the policy", "TF32", "expandable segments", "attempt 1"]
    assert found[0].setting == "nsysprof run --policy out/tune/policy.json -- PROGRAM"
    assert found[0].predicted == GAIN
    assert found[3].side.variables == (("A", "1"),)


@pytest.mark.parametrize(
    ("given", "setting"),
    [
        ({}, "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"),
        (
            {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64"},
            "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64,expandable_segments:True",
        ),
        ({"PYTORCH_ALLOC_CONF": "pinned_use_background_threads:True"}, None),
        ({"PYTORCH_ALLOC_CONF": "expandable_segments:False"}, ""),
        ({"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}, ""),
    ],
)
def test_expandable_segments_are_added_to_what_the_user_has_set(monkeypatch, given, setting):
    for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    if setting is None:
        setting = "PYTORCH_ALLOC_CONF=pinned_use_background_threads:True,expandable_segments:True"
    found = list_trials(facts("memory-fragmentation"), TunedProgram(), "p.json", None, ())
    assert [candidate.setting for candidate in found] == ([setting] if setting else [])
    assert all(candidate.side.variables == (tuple(setting.split("=", 1)),) for candidate in found)
