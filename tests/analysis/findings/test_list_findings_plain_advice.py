"""What helps in a program without torch: nothing of torch."""

import re

import pytest

from nsysprof.analysis.findings.list_findings import plain_step, plain_text
from tests.analysis.programs import MS, OF_TORCH, US, Program

TORCH = re.compile(r"torch|DataLoader|pin_memory|\.item\(\)|PYTORCH|detach")


def faulty(kernel):
    """Return steps that copy pageable memory, wait, allocate and do host work, with kernels of this name."""
    program = Program()
    for _ in range(8):
        begin = program.now
        program.copy(256 << 20, 40 * MS)
        program.host(20 * MS)
        for number in range(20):
            program.host(5 * US)
            program.launch(200 * US, kernel)
            program.wait()
            program.host(150 * US)
            if number % 5 == 0:
                program.call("cudaFree_v3020", 900 * US, waits=True)
                program.call("cudaMalloc_v3020", 300 * US)
        program.step(begin)
    return program.builder


@pytest.mark.parametrize("kernel", ["nvkernel_matmult_mkn_offload_F1L20_2", "saxpy(float*, int)"])
def test_programs_without_torch_get_no_advice_for_it(findings, kernel):
    """As 92 of 104 public programs in Fortran, OpenACC and CUDA C++ did."""
    items = findings(faulty(kernel)).items
    assert {item.code for item in items} >= {"pageable-copy", "sync", "alloc-in-loop"}
    assert [item.code for item in items if TORCH.search(f"{item.text} {item.next_step}")] == []


def test_programs_with_torchs_kernels_get_torchs_advice(findings):
    steps = {item.code: item.next_step for item in findings(faulty(OF_TORCH)).items}
    assert "pin_memory=True" in steps["pageable-copy"]


def test_what_has_no_other_advice_keeps_it():
    assert plain_step("module-load", "Run each shape once.") == "Run each shape once."
    assert plain_text("memory that read values, as .item() does; then") == "memory that read values; then"
