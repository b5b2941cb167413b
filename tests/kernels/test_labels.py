"""Readable names of kernels, from names that nsys recorded."""

# ruff: noqa: E501 (names are as long as they are)

import pytest

from nsysprof.kernels.labels import label_kernel, label_kernels
from nsysprof.kernels.names import categorize

T = "at::native::"
LAMBDA = "::[lambda() (instance 3)]::operator ()() const::[lambda() (instance 7)]::operator ()() const::[lambda(float) (instance 1)]"
REAL = [
    (f"void {T}vectorized_elementwise_kernel<(int)8, {T}CUDAFunctor_add<c10::BFloat16>, std::array<char *, (unsigned long)3>>(int, T2, T3)", "add<bf16>", "elementwise"),
    (f"void {T}elementwise_kernel<(int)128, (int)2, void {T}gpu_kernel_impl_nocast<{T}BUnaryFunctor<float, float, float, {T}binary_internal::MulFunctor<float>>>(at::TensorIteratorBase &, const T1 &)::[lambda(int) (instance 1)]>(int, T3)", "mul<float>", "elementwise"),
    (f"void {T}vectorized_elementwise_kernel<(int)8, {T}<unnamed>::silu_kernel(at::TensorIteratorBase &){LAMBDA.replace('float', 'c10::BFloat16')}, std::array<char *, (unsigned long)2>>(int, T2, T3)", "silu<bf16>", "elementwise"),
    (f"void {T}vectorized_elementwise_kernel<(int)4, {T}(anonymous namespace)::silu_kernel(at::TensorIteratorBase&)::{{lambda()#1}}::operator()() const::{{lambda(float)#1}}, at::detail::Array<char*, 2> >(int, float)", "silu<float>", "elementwise"),
    (f"void {T}unrolled_elementwise_kernel<{T}direct_copy_kernel_cuda(at::TensorIteratorBase &){LAMBDA}, std::array<char *, (unsigned long)2>, (int)4>(int, T1)", "copy<float>", "copy"),
    (f"void {T}vectorized_elementwise_kernel<(int)8, {T}bfloat16_copy_kernel_cuda(at::TensorIteratorBase &)::[lambda(float) (instance 1)], std::array<char *, (unsigned long)2>>(int, T2, T3)", "copy<float to bf16>", "copy"),
    (f"void {T}vectorized_elementwise_kernel<(int)4, {T}GeluBackwardCUDAKernelImpl(at::TensorIteratorBase &, {T}GeluType){LAMBDA}, std::array<char *, (unsigned long)3>>(int, T2, T3)", "gelu_backward<float>", "elementwise"),
    (f"void {T}reduce_kernel<(int)128, (int)4, {T}ReduceOp<c10::BFloat16, {T}func_wrapper_t<c10::BFloat16, {T}sum_functor<c10::BFloat16, float, c10::BFloat16>::operator ()(at::TensorIterator &)::[lambda(float, float) (instance 1)]>, unsigned int, c10::BFloat16, (int)4, (int)8>>(T3)", "sum<bf16>", "reduction"),
    (f"void {T}reduce_kernel<(int)512, (int)1, {T}ReduceOp<c10::BFloat16, {T}ArgMaxOps<float>, unsigned int, long, (int)4, (int)4>>(T3)", "argmax<bf16>", "reduction"),
    (f"void {T}reduce_kernel<(int)512, (int)1, {T}ReduceOp<long, {T}func_wrapper_t<long, {T}MaxNanFunctor<long>>, unsigned int, long, (int)4, (int)4>>(T3)", "max<long>", "reduction"),
    (f"void {T}vectorized_elementwise_kernel<(int)8, {T}BinaryFunctor<c10::BFloat16, c10::BFloat16, c10::BFloat16, void {T}<unnamed>::threshold_kernel_impl<c10::BFloat16>(at::TensorIteratorBase &, T1, T1)::[lambda(c10::BFloat16, c10::BFloat16) (instance 1)]>, std::array<char *, (unsigned long)3>>(int, T2, T3)", "threshold<bf16>", "elementwise"),
    (f"void {T}<unnamed>::multi_tensor_apply_kernel<{T}<unnamed>::TensorListMetadata<(int)3>, {T}<unnamed>::PointwiseOpScalarFunctor<float, (int)3, (int)3, (int)0>, std::multiplies<float>, float>(T1, T2, T3...)", "foreach_addcmul<float>", "elementwise"),
    (f"void {T}<unnamed>::multi_tensor_apply_kernel<{T}<unnamed>::FusedOptimizerTensorListMetadata<(int)4>, {T}<unnamed>::FusedAdamMathFunctor<c10::BFloat16, (int)4, ({T}ADAM_MODE)1, (bool)0>, const float *>(T1)", "fused_adam<bf16>", "optimizer"),
    ("void <unnamed>::softmax_warp_forward<float, float, float, (int)10, (bool)0, (bool)0>(T2 *, const T1 *, int)", "softmax<float>", "softmax"),
    (f"void {T}<unnamed>::cunn_SoftMaxBackwardSmem<(int)4, float, float, float, {T}<unnamed>::LogSoftMaxBackwardEpilogue>(T1)", "log_softmax_backward<float>", "softmax"),
    (f"void {T}<unnamed>::vectorized_layer_norm_kernel<c10::BFloat16, float, (bool)0>(int, T2)", "layer_norm<bf16>", "normalization"),
    ("nvjet_sm90_tst_64x64_64x13_1x2_h_bz_splitK_NTT", "nvjet gemm 64x64x64 splitK NTT", "gemm"),
    ("sm90_xmma_gemm_f32f32_tf32f32_f32_nt_n_tilesize128x128x32_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas", "gemm<tf32> 128x128x32 nt", "gemm"),
    ("void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nt_align1>(T1::Params)", "cutlass sgemm 256x128x8 nt", "gemm"),
    ("ampere_sgemm_128x64_nn", "sgemm 128x64 nn", "gemm"),
    ("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<(int)64, (int)128, (int)128, (int)4, (bool)0, (bool)0, cutlass::half_t>, (bool)0>(pytorch_flash::Flash_fwd_params)", "flash fwd<half> d64 128x128", "attention"),
    ("fmha_cutlassB_f16_aligned_64x64_k64_seqaligned_sm80(PyTorchMemEffAttention::AttentionBackwardKernel<cutlass::arch::Sm80>::Params)", "efficient bwd<half> 64x64", "attention"),
    ("cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_26_64x64x64_1x4x1_cga1x1x1_kernel0_0", "cudnn sdpa bwd<16 bit> 64x64x64", "attention"),  # of a training in bf16
    ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)", "nccl AllReduce sum<f32> ring LL", "communication"),
    ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<(unsigned long)4096>)", "nccl SendRecv", "communication"),
    ("triton_per_fused_add_addmm_native_layer_norm_2", "triton_per_fused_add_addmm_native_layer_norm_2", "normalization"),
    ("cupy_multiply__complex64_complex64_complex64", "multiply<complex64>", "elementwise"),
    ("loop_multiply_tanh_fusion", "loop_multiply_tanh_fusion", "elementwise"),
    ("gemm_fusion_dot_7", "gemm_fusion_dot_7", "gemm"),
    ("void cub::CUB_300102_SM_750::detail::reduce::DeviceReduceKernel<cub::CUB_300102_SM_750::detail::reduce::policy_hub<float, unsigned int>::Policy1000, float *>(T2)", "cub Reduce<float>", "reduction"),
    ("saxpy(int, float, const float *, float *)", "saxpy", "elementwise"),
    ("aten::add", "aten::add", "elementwise"),
    ("", "", "other"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "label", "category"), REAL)
def test_labels_say_what_is_computed(name, label, category):
    assert (label_kernel(name), categorize(name)) == (label, category)


def test_labels_are_unique_and_tell_how_twins_differ():
    names = [
        f"void {T}vectorized_elementwise_kernel<(int)4, {T}CUDAFunctor_add<float>, std::array<char *, (unsigned long)3>>(int)",
        f"void {T}elementwise_kernel<(int)128, (int)2, void {T}gpu_kernel_impl_nocast<{T}CUDAFunctor_add<float>>(at::Tensor)>(int)",
        "f(int)", "g::f(int)", "f #2",
    ]  # fmt: skip
    assert label_kernels(names) == ["add<float>", "add<float> strided", "f", "f #3", "f #2"]
    assert label_kernels(["a", "a"]) == ["a", "a #2"]


@pytest.mark.parametrize(
    "name", ["<" * 500, "void " + "a::" * 3000 + "f<", "elementwise_kernel<" * 50, "[lambda()" * 400]
)
def test_odd_names_end_soon(name):
    assert len(label_kernel(name)) <= 120
