import warnings

import pytest

pytest.importorskip("torch")

from nsysprof.workload.refusal import IneligibleError, eligibility, refusal_reasons

MESSAGES = [
    "Flash attention kernel not used because: (Triggered internally at sdp.cpp:1.)",
    "Expected query to be half (Triggered internally at sdp.h:80.)",
    "Memory efficient kernel not used because:",
    "Both fused kernels need CUDA",
    "CuDNN attention kernel not used because:",
    "cudnn attention has been runtime disabled",
]


@pytest.mark.parametrize(
    ("backend", "reason"),
    [("flash", "Expected query to be half"), ("efficient", "Both fused kernels need CUDA"), ("cudnn", "")],
)
def test_only_the_reasons_of_the_backend_are_given(backend, reason):
    assert refusal_reasons(backend, MESSAGES) == reason


def test_a_refusal_of_torch_says_why():
    with pytest.raises(IneligibleError, match="^Expected query to be half$"), eligibility("flash"):
        for message in MESSAGES:
            warnings.warn(message, stacklevel=1)
        raise RuntimeError("No available kernel. Aborting execution.")


def test_a_refusal_without_a_reason_quotes_torch():
    with pytest.raises(IneligibleError, match="^torch: No viable backend"), eligibility("flash"):
        raise RuntimeError("No viable backend for attention\nmore")


def test_other_errors_stay_as_they_are():
    with pytest.raises(RuntimeError, match="out of memory"), eligibility("flash"):
        raise RuntimeError("CUDA out of memory")
