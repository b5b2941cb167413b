"""`explain` on a real GPU: run by hand with `pytest -m gpu`, never in CI."""

import json

import pytest

torch = pytest.importorskip("torch", reason="needs the extra [torch]")

from tests.builders.run_command import run  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")]

FUSED = ("flash", "efficient", "cudnn")


def explain(*arguments):
    done = run("explain", "--device", "cuda", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "no warning of torch's reaches the terminal"
    (shape,) = json.loads(done.stdout)["shapes"]
    return {each["backend"]: each for each in shape["backends"]}


def kernel_total_ns(answer):
    return sum(kernel["total_ns"] for kernel in answer["ran"]["kernels"])


def agrees(answers):
    """Assert what must hold for any shape."""
    for name, each in answers.items():
        ran = each["ran"]
        if each["eligible"] is False:
            assert each["constraints"], name
            assert all(constraint["text"] for constraint in each["constraints"])
            assert ran["status"] == "not_run"
        elif each["eligible"] and ran["status"] == "ok":
            assert ran["kernels"], f"{name} ran without a kernel"
            assert ran["family"] in ("flash", "efficient", "cudnn", "math", "other")
    auto = answers["auto"]
    assert auto["predicted"] in ("math", *FUSED)
    assert auto["predicted"] == "math" or answers[auto["predicted"]]["eligible"] is True
    assert auto["ran"]["as_asked"] is True, auto["ran"]


def test_head_dimension_8192():
    answers = explain("--seq", "16", "--heads", "1", "--head-dim", "8192", "--causal", "no")
    agrees(answers)
    flash = answers["flash"]
    assert flash["eligible"] is False
    constraint = flash["constraints"][0]
    assert (constraint["property"], constraint["value"], constraint["bound"]) == ("head_dim", 8192, 256)
    assert {"head_dim": {"from": 8192, "to": 256}} in [each["changes"] for each in flash["nearest"]]
    assert answers["math"]["eligible"] and answers["naive"]["eligible"]
    cudnn = answers["cudnn"]
    if cudnn["eligible"] is False and cudnn["built"] and cudnn["supported"]:
        assert cudnn["constraints"][0]["property"] == "head_dim"
        assert cudnn["nearest"]
    efficient = answers["efficient"]
    if efficient["eligible"]:
        assert efficient["ran"]["family"] == "efficient", "and the shape it refuses is not run as something else"
        assert kernel_total_ns(answers["naive"]) < kernel_total_ns(efficient)


def test_the_nearest_shape_is_taken():
    refused = explain("--seq", "16", "--head-dim", "8192", "--dtype", "fp32", "--backends", "flash,auto")["flash"]
    assert {"head_dim", "dtype"} <= {constraint["property"] for constraint in refused["constraints"]}
    nearest = refused["nearest"][0]["call"]
    assert nearest["head_dim"] == 256
    assert nearest["dtype"] in ("fp16", "bf16")
    taken = explain(
        "--seq", "16", "--head-dim", str(nearest["head_dim"]), "--dtype", nearest["dtype"], "--backends", "flash"
    )["flash"]
    assert taken["eligible"] is True
    assert taken["ran"]["family"] == "flash"


@pytest.mark.parametrize("pass_", ["fwd", "bwd"])
def test_an_ordinary_shape_runs_as_asked(pass_):
    answers = explain("--seq", "512", "--pass", pass_)
    agrees(answers)
    for name, each in answers.items():
        if each["eligible"]:
            assert each["ran"]["as_asked"] is True, (name, each["ran"])
            assert each["built"] is True


def test_a_mask_refuses_flash_alone():
    answers = explain("--seq", "128", "--mask", "bool")
    agrees(answers)
    assert [each["property"] for each in answers["flash"]["constraints"]] == ["mask"]
    assert answers["flash"]["nearest"][0]["changes"] == {"mask": {"from": "bool", "to": "none"}}
    assert answers["efficient"]["eligible"] is True


def test_alignment_refuses_efficient():
    answers = explain("--seq", "128", "--head-dim", "65")
    agrees(answers)
    efficient = answers["efficient"]
    assert [(each["property"], each["value"]) for each in efficient["constraints"]] == [("head_dim", 65)]
    assert efficient["nearest"][0]["changes"]["head_dim"]["to"] == 64


def test_too_large_for_the_memory_is_not_ineligible():
    answers = explain("--seq", "1048576", "--heads", "8", "--backends", "math,naive")
    for each in answers.values():
        assert (each["eligible"], each["ran"]["status"]) == (True, "out_of_memory"), each
