"""Who waits for whom: a launch whose queue is full waits for the GPU, and is no slow host."""

import pytest

from nsysprof.analysis.findings.kernel_candidates import FORWARD
from tests.analysis.programs import US, Program


def test_a_host_that_waits_for_room_in_its_queue_is_as_fast_as_the_gpu_lets_it(findings):
    program = Program(queue=400)
    for _ in range(6):
        begin = program.now
        for _ in range(100):
            program.launch(100 * US, "gemm_qk")
            program.launch(300 * US, "softmax_warp_forward")
            program.launch(100 * US, "gemm_pv")
            program.launch(500 * US, "gemm_mlp")
            program.launch(50 * US, "loss_nll")
        program.step(begin)
    (item,) = findings(program.builder).items
    assert item.code == "unfused-attention"
    # Without the softmaxes the GPU is done sooner, and so is a host that waited for it in its launches.
    assert item.saving_ns == pytest.approx(100 * (302 + (1 - FORWARD.usual) * 200) * US, rel=0.05)


def test_memory_that_is_given_back_waits_for_the_gpu_where_nothing_else_does_any_more(findings):
    def training(last):
        program = Program()
        for _ in range(8):
            begin = program.now
            for _ in range(20):
                program.launch(200 * US)
            program.wait()
            program.call(last, 300 * US)
            program.host(150 * US)
            program.step(begin)
        return {item.code: item.saving_ns for item in findings(program.builder).items}

    # The host runs ahead without its wait, but only as far as the call that waits for the GPU anyway.
    assert training("cudaMalloc_v3020")["sync"] > 200 * US
    assert "sync" not in training("cudaFree_v3020")
