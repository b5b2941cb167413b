"""What a program reads from the GPU decides what it can do instead."""

import pytest

from tests.analysis.programs import MS, OF_TORCH, US, Program

REDUCE = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float>>>(T3)"
SCALER = (
    "void at::native::multi_tensor_apply_kernel<at::native::TensorListMetadata<1>, at::native::UnaryOpFunctor<float>, "
    "at::native::_amp_foreach_non_finite_check_and_unscale_cuda_(c10::ArrayRef<at::Tensor>)::[lambda()]>(T1)"
)
NONZERO = (
    "void at_cuda_detail::cub::detail::reduce::DeviceReduceKernel<at_cuda_detail::cub::policy_hub<int>, "
    "thrust::transform_iterator<at::native::NonZeroOp<bool>, const bool *>>(T2)"
)
TILE = "void at_cuda_detail::cub::detail::reduce::DeviceReduceSingleTileKernel<int>(T2)"
OWN = "stencil(float *)"


def sync_of(findings, *reads):
    """Return the finding about waits of steps that read values, each the bytes and the kernels that wrote it."""
    program = Program()
    for _ in range(8):
        begin = program.now
        for size, writers in reads:
            for _ in range(4):
                program.launch(1 * MS, OWN if writers == (OWN,) else OF_TORCH)
            for name in writers:
                program.launch(20 * US, name)
            program.copy(size, 2 * US, kind=2)
            program.host(500 * US)
        program.step(begin)
    return next(item for item in findings(program.builder).items if item.code == "sync")


@pytest.mark.parametrize(
    ("size", "writers", "says", "advises"),
    [
        (4, (REDUCE,), "that read values, as .item() does;", "loss.detach()"),
        (4, (SCALER,), "that read the check of GradScaler, whether", "fused=True"),
        (4, (NONZERO, TILE), "that read sizes of masks as indices", "torch.where(mask, a, b)"),
        (1, (REDUCE,), "that read conditions, as an if on a tensor does", "validate_args=False"),
        (1, (OWN,), "that read values;", "copies to the host"),
    ],
)
def test_what_wrote_a_value_tells_what_it_is(findings, size, writers, says, advises):
    item = sync_of(findings, (size, writers))
    assert says in item.text
    assert advises in item.next_step


def test_several_kinds_are_counted_and_each_has_its_advice(findings):
    item = sync_of(findings, (4, (REDUCE,)), (4, (SCALER,)), (4, (REDUCE,)))
    assert "3 cudaMemcpyAsync that read values: 2 as .item() does, 1 for the check of GradScaler;" in item.text
    assert item.next_step.index("loss.detach()") < item.next_step.index("fused=True")


def test_a_wait_that_reads_nothing_is_told_apart(findings):
    program = Program()
    for _ in range(8):
        begin = program.now
        program.launch(1 * MS, OF_TORCH)
        program.launch(20 * US, SCALER)
        program.copy(4, 2 * US, kind=2)
        program.launch(1 * MS, OF_TORCH)
        program.wait()
        program.host(500 * US)
        program.step(begin)
    item = next(item for item in findings(program.builder).items if item.code == "sync")
    assert all(part in item.text for part in ("1 for none", "1 for the check of GradScaler"))
    assert "torch.cuda.synchronize()" in item.next_step and "fused=True" in item.next_step
