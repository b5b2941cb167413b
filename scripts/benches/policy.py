"""Measure what `with nsysprof.policy(...)` adds to a call of attention, on this machine, as Markdown.

    scripts/bench.py policy [--calls N]
    scripts/bench.py policy --write        write analysis/speed/policy.json, for the table in docs/policy.md

The CPU's time to launch a small call, back to back: as torch has it, in a policy that chooses torch's own backend, in
one that chooses a backend, in one that was not tuned for the call, and with torch's sdpa_kernel around each call. All
five interleaved in one process; the median of 30 rounds. Without a GPU, the processor's time for a tiny call on one
thread.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import nsysprof
from nsysprof.attention.policy_file import PolicyFile, PolicyRule, write_policy
from nsysprof.units import format_ns
from nsysprof.workload.applied_policy.apply_policy import loaded_cudnn
from scripts.benches.machine import SPEED, load_now, machine, write_measured

_ROUNDS = 30
_SHAPE, _TINY = (1, 8, 128, 64), (1, 1, 8, 8)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=200, help="calls a round (default 200)")
    parser.add_argument("--write", action="store_true", help="write what was measured, for the documentation")
    options = parser.parse_args()
    calls, load = options.calls, load_now()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.float16 if device == "cuda" else torch.float32
    shape = _SHAPE if device == "cuda" else _TINY
    torch.set_num_threads(1)
    q, k, v = (torch.randn(shape, device=device, dtype=dtype) for _ in range(3))

    def call() -> None:
        F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def call_in_context() -> None:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            F.scaled_dot_product_attention(q, k, v, is_causal=True)

    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        ways: dict[str, tuple[AbstractContextManager[object], Callable[[], None]]] = {
            "torch alone": (nullcontext(), call),
            "policy: auto": (nsysprof.policy(_policy(folder, device, "auto", shape)), call),
            "policy: flash": (nsysprof.policy(_policy(folder, device, "flash", shape)), call),
            "policy: not tuned for it": (nsysprof.policy(_policy(folder, device, "flash", (2, *shape[1:]))), call),
            "sdpa_kernel around each call": (nullcontext(), call_in_context),
        }
        times: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(_ROUNDS):
            for name, (context, way) in ways.items():
                with context:
                    times[name].append(_time(way, calls, device))
    medians = {way: statistics.median(values) for way, values in times.items()}
    name = torch.cuda.get_device_name() if device == "cuda" else machine()
    print(f"{name}, torch {torch.__version__}, {shape} {dtype}, load {load:.1f}\n")
    print("| | a call, launched | more than torch alone |\n|---|---:|---:|")
    for way, middle in medians.items():
        print(f"| {way} | {format_ns(middle)} | {format_ns(middle - medians['torch alone'])} |")
    if options.write:
        found = {"machine": name, "torch": str(torch.__version__), "device": device, "load": load,
                 "rounds": _ROUNDS, "calls": calls, "call_ns": medians}  # fmt: skip
        write_measured(SPEED / ("policy.json" if device == "cpu" else "policy-gpu.json"), found)
    return 0


def _policy(folder: str, device: str, backend: str, shape: tuple[int, ...]) -> Path:
    batch, heads, seq, head_dim = shape
    dtype = "fp16" if device == "cuda" else "fp32"
    rule = PolicyRule(backend, batch=batch, heads=heads, seq=seq, head_dim=head_dim, dtype=dtype)
    gpu, cudnn = (torch.cuda.get_device_name(), loaded_cudnn()) if device == "cuda" else (None, None)
    path = Path(folder) / f"{backend}-{batch}.json"
    write_policy(path, PolicyFile((rule,), device, gpu, str(torch.__version__), cudnn))
    return path


def _time(call: Callable[[], None], calls: int, device: str) -> float:
    """Nanoseconds a call until it is launched; the device is idle before and after."""
    for _ in range(10):
        call()
    if device == "cuda":
        torch.cuda.synchronize()
    clock = time.perf_counter_ns if device == "cuda" else time.thread_time_ns
    start = clock()
    for _ in range(calls):
        call()
    end = clock()
    if device == "cuda":
        torch.cuda.synchronize()
    return (end - start) / calls
