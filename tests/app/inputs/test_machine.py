"""What the measuring commands know of the machine; NVML's answer is the only part that is made up."""

import pytest

from nsysprof.app.inputs.machine import settle_device
from nsysprof.capture import environment
from nsysprof.errors import MissingToolError


@pytest.mark.parametrize(
    ("device", "has_gpu", "visible", "settled"),
    [
        ("auto", True, None, "cuda"),
        ("auto", True, "0", "cuda"),
        ("auto", True, "", "cpu"),
        ("auto", True, "-1", "cpu"),
        ("auto", False, None, "cpu"),
        ("cpu", True, None, "cpu"),
        ("cuda", True, None, "cuda"),
    ],
)
def test_the_device_follows_what_can_be_seen(device, has_gpu, visible, settled, monkeypatch):
    monkeypatch.setattr(environment, "collect_gpus", lambda: [{"name": "GPU"}] if has_gpu else [])
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert settle_device(device) == settled


def test_cuda_that_cannot_be_seen_is_an_error(monkeypatch):
    monkeypatch.setattr(environment, "collect_gpus", lambda: [{"name": "GPU"}])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    with pytest.raises(MissingToolError, match="no NVIDIA GPU"):
        settle_device("cuda")
