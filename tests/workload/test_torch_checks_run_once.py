"""Kernels are read from torch's profile by device, and counted by name."""

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="needs the extra [torch]")

from torch.autograd import DeviceType  # noqa: E402
from torch.autograd.profiler_util import Interval  # noqa: E402

from nsysprof.workload.torch_checks import _kernels, _operators  # noqa: E402


def event(name, device, start_us, end_us):
    return SimpleNamespace(name=name, device_type=device, time_range=Interval(start_us, end_us))


EVENTS = [
    event("aten::bmm", DeviceType.CPU, 0, 90),
    event("cudaLaunchKernel", DeviceType.CPU, 1, 2),
    event("softmax", DeviceType.CUDA, 30, 31.5),
    event("gemm", DeviceType.CUDA, 10, 12.25),
    event("gemm", DeviceType.CUDA, 40, 41),
    event("Memcpy DtoD (Device -> Device)", DeviceType.CUDA, 50, 60),
    event("Memset (Device)", DeviceType.CUDA, 61, 62),
]


def test_kernels_are_those_of_the_gpu_in_order_of_launch():
    assert _kernels(SimpleNamespace(function_events=EVENTS)) == [
        {"name": "gemm", "count": 2, "total_ns": 3250},
        {"name": "softmax", "count": 1, "total_ns": 1500},
    ]


def test_operators_are_torchs():
    assert _operators(SimpleNamespace(function_events=EVENTS)) == ["aten::bmm"]
