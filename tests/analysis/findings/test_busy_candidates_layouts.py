"""What channels_last saves convolutional nets whose kernels work in NCHW: truths of an H200, in bf16 by autocast."""

from dataclasses import dataclass

import pytest

from scripts.prove_busy import MOST_OFF_PCT
from tests.builders.operator_steps import ELEMENTWISE, SGEMM, TENSOR_GEMM, Launched, analyze_steps, tensor

NORM = "void at::native::batch_norm_{}_kernel<c10::BFloat16, c10::BFloat16, float, int>"
DEPTHWISE = "void at::native::<unnamed>::conv_depthwise2d_{}_kernel<3, c10::BFloat16, int>"
CONVOLUTION = "sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x64"
TO_NHWC = "void cudnn::engines_precompiled::nchwToNhwcKernel<__nv_bfloat16, __nv_bfloat16, float, (bool)0>"


@dataclass(frozen=True)
class Net:
    """A net: its step as it is and in channels_last without a profiler, and what its kernels take (ms)."""

    step_ms: float
    mended_ms: float
    norms: int
    # Statistics, transformation and backward pass of all normalizations, in images of this shape on average.
    norm_ms: tuple[float, float, float]
    shape: tuple[int, ...]
    # Forward pass, and the gradients of images and weights.
    depthwise_ms: tuple[float, float, float] = (0, 0, 0)
    layout_ms: float = 0.0
    other_ms: float = 0.0


NETS = {
    "efficientnet": Net(
        68.6, 40.4, 49, (8.72, 2.91, 19.39), (128, 44, 56, 56), (3.77, 8.73, 9.35), 0.93, 11.5
    ),
    "mobilenet": Net(51.3, 35.9, 46, (8.46, 1.77, 19.28), (128, 30, 56, 56), (2.14, 5.46, 5.55), 0.63, 6.0),
}  # fmt: skip


def step_of(net):
    """Return the kernels of a step, whose times are shared evenly, and how long the host takes for each (ns)."""
    half = "c10::BFloat16"
    images, result = tensor(net.shape, 1, half), tensor(net.shape, 2, half)
    launched = []

    def add(name, kernel, total_ms, inputs=(images,), outputs=(result,)):
        if total_ms:
            launched.append(Launched(name, kernel, int(1e6 * total_ms / net.norms), inputs, outputs))

    for _ in range(net.norms):
        add("aten::cudnn_convolution", CONVOLUTION, net.other_ms / 2, [images, tensor((32, 32, 3, 3), 3, half)])
        add("aten::cudnn_convolution", TO_NHWC, net.layout_ms)
        add("aten::native_batch_norm", NORM.format("collect_statistics"), net.norm_ms[0], [images], [])
        add("aten::native_batch_norm", NORM.format("transform_input"), net.norm_ms[1])
        for kernel, took in zip(("forward", "backward", "grad_weight"), net.depthwise_ms, strict=True):
            add("aten::_conv_depthwise2d", DEPTHWISE.format(kernel), took)
        add("aten::native_batch_norm_backward", NORM.format("backward"), net.norm_ms[2], [images, result])
        add("aten::relu_", ELEMENTWISE, net.other_ms / 2)
    return launched, int(1e6 * net.mended_ms / len(launched))


def finding(analysis):
    return next((item for item in analysis.findings.items if item.code == "layout-conversion"), None)


# In channels_last the hosts of these programs set the pace, so that all of them have the pace of their mended form.
@pytest.mark.parametrize("has_facts", [True, False])
@pytest.mark.parametrize("name", NETS)
def test_channels_last_saves_what_it_saved(tmp_path, name, has_facts):
    net = NETS[name]
    operators, host_ns = step_of(net)
    item = finding(analyze_steps(tmp_path, operators, steps=5, has_facts=has_facts, host_ns=host_ns))
    saved_ms = net.step_ms - net.mended_ms
    assert item.saving_ns / 1e6 == pytest.approx(saved_ms, abs=MOST_OFF_PCT / 100 * net.step_ms)
    assert item.saving_low_ns <= saved_ms * 1e6 <= 1.05 * item.saving_high_ns
    assert f"{3 * net.norms} normalizations in NCHW take" in item.text


def test_nets_without_kernels_for_nchw_are_not_told_to_change(tmp_path):
    # ConvNeXt: its depthwise convolutions are cuDNN's for NHWC, and it has no batch normalization.
    convolution = "void conv2d_c1_k1_nhwc_specialized<__nv_bfloat16, float>"
    operators = [Launched("aten::mm", TENSOR_GEMM, 900_000), Launched("aten::relu_", ELEMENTWISE, 90_000)] * 3
    operators += [Launched("aten::cudnn_convolution", convolution, 300_000)] * 3
    operators += [Launched("aten::cudnn_convolution", TO_NHWC, 30_000)]
    assert finding(analyze_steps(tmp_path, operators)) is None


def test_what_is_normalized_must_be_images(tmp_path):
    rows = tensor((4096, 512), 1)
    norm = Launched("aten::native_batch_norm", NORM.format("collect_statistics"), 900_000, [rows], [rows])
    assert finding(analyze_steps(tmp_path, [norm, Launched("aten::mm", TENSOR_GEMM, 90_000)])) is None
    (tmp_path / "beside").mkdir()
    operators = [norm, Launched("aten::cudnn_convolution", CONVOLUTION, 90_000)]
    assert finding(analyze_steps(tmp_path / "beside", operators)) is None
    # A net with conversions and few convolutions beside what is normalized: only the conversions count.
    (tmp_path / "converted").mkdir()
    images = [tensor((64, 8, 16, 16), 1)]
    norms = [Launched("aten::native_batch_norm", NORM.format("collect_statistics"), 900_000, images, images)] * 3
    converted = [*norms, operators[1], Launched("aten::cudnn_convolution", TO_NHWC, 300_000)]
    item = finding(analyze_steps(tmp_path / "converted", converted))
    assert "normalization" not in item.text and item.saving_ns < 400_000


def test_tf32_is_not_promised_to_depthwise_convolutions(tmp_path):
    kernel = DEPTHWISE.format("forward").replace("c10::BFloat16", "float")
    operators = [Launched("aten::_conv_depthwise2d", kernel, 900_000), Launched("aten::mm", SGEMM, 300_000)]
    analysis = analyze_steps(tmp_path, operators)
    item = next(item for item in analysis.findings.items if item.code == "no-tensor-cores")
    assert item.text.startswith("1 product or convolution in fp32 without tensor cores take 300 us")
