"""Builds traces of steps whose operators and tensors are known, so that a test says what findings make of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nsysprof.analysis.overview.summarize import SummaryOptions, run_summary
from nsysprof.results.analysis import Analysis
from nsysprof.torchprof.operator_facts import OperatorFacts
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.builders.build_trace import TID, TraceBuilder

ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"
REDUCTION = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float>>>"
SGEMM = "ampere_sgemm_128x64_tn"
ALIGN1 = "cutlass_80_tensorop_bf16_s16816gemm_bf16_128x64_32x6_tn_align1"
CAST = "void at::native::vectorized_elementwise_kernel<4, at::native::bfloat16_copy_kernel_cuda>"
TENSOR_GEMM = "nvjet_tst_128x256_64x4_2x1_v_bz_TNT"
ATTENTION = "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>"
_NODE = "start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER, nameId INTEGER, graphNodeId INTEGER, "
_NODE += "originalGraphNodeId INTEGER"


def tensor(sizes: Sequence[int], storage: int, kind: str = "float", strides: Sequence[int] | None = None) -> Any:
    """Return a tensor as the recorder writes it."""
    return {
        "sizes": list(sizes), "strides": None if strides is None else list(strides), "type": kind, "tensor": storage,
        "storage": storage,
    }  # fmt: skip


@dataclass
class Launched:
    """An operator that launches one kernel.

    around: the operators around it, the outermost first.
    reads: how many bytes the host then reads, for which it waits.
    """

    name: str
    kernel: str
    duration_ns: int
    inputs: Sequence[Any] = ()
    outputs: Sequence[Any] = ()
    around: Sequence[str] = field(default_factory=tuple)
    place: str = ""
    reads: int = 0


def analyze_steps(
    path: Path,
    operators: Sequence[Launched],
    *,
    steps: int = 8,
    has_facts: bool = True,
    is_replayed: bool = False,
    host_ns: int = 200,
) -> Analysis:
    """Return the analysis of steps that launch these operators, one behind the other; the first step is recorded.

    is_replayed: whether a graph launches them, in which they were captured before.
    host_ns: how long the host takes for each (ns).
    """
    trace, now, free_at, correlation = TraceBuilder(), 10_000, 0, 1
    trace.gpu()
    if is_replayed:
        for number, one in enumerate(operators):
            _open(trace, one, number, now)
            trace.row("CUDA_GRAPH_NODE_EVENTS", _NODE, (now, now, 77, TID, 1, 500 + number, None))
            now += 200
    for step in range(steps):
        begin = now
        if is_replayed:
            trace.call(now, now + 10, correlation, "cudaGraphLaunch_v10000")
        for number, one in enumerate(operators):
            if step == 0 and not is_replayed:
                _open(trace, one, number, now)
            if not is_replayed:
                trace.call(now, now + 10, correlation)
            free_at = max(free_at + 1_000, now + 500)
            node = 500 + number if is_replayed else None
            trace.kernel(free_at, free_at + one.duration_ns, correlation, one.kernel, node=node)
            free_at += one.duration_ns
            if one.reads:
                correlation += 1
                trace.call(now + 20, free_at + 3_000, correlation, "cudaMemcpyAsync_v3020")
                trace.copy(free_at + 1_000, free_at + 2_000, correlation, one.reads, 2, host=0)
                now, free_at = free_at + 3_000, free_at + 2_000
            now, correlation = now + host_ns, correlation + (not is_replayed)
        correlation += 1
        trace.call(now, free_at + 100, correlation, "cudaDeviceSynchronize_v3020")
        trace.sync(now, free_at, correlation, 4)
        now, correlation = free_at + 200, correlation + 1
        trace.range(begin - 30, now, "step")
        now += 200
        if step == 0 and not is_replayed:
            trace.range(begin - 50, now - 100, "nsysprof operators", kind=60)
    facts = {
        _op_id(number): OperatorFacts(_op_id(number), one.name, tuple(one.inputs), tuple(one.outputs))
        for number, one in enumerate(operators)
    }
    with open_trace(trace.write(path / f"{has_facts}.sqlite")) as opened:
        options = SummaryOptions(operator_facts={100: facts} if has_facts else {})
        return run_summary(read_tables(opened), options).analysis


def _op_id(number: int) -> int:
    return 10 * (number + 1)


def _open(trace: TraceBuilder, one: Launched, number: int, at: int) -> None:
    """Write the ranges around a launch."""
    texts = [f"nsysprof layer block.{number} @ {one.place}, op_id = {_op_id(number) - 9}"] if one.place else []
    texts += [f"{name}, op_id = {_op_id(number) - 5 + place}" for place, name in enumerate(one.around)]
    for place, text in enumerate([*texts, f"{one.name}, op_id = {_op_id(number)}, sizes = [[]]"]):
        trace.range(at - 20 + place, at + 40 - place, text)
