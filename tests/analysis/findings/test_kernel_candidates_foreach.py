"""A foreach optimizer that memory limits: what a fused one saves, by operators and by the order of kernels."""

import pytest

from tests.builders.operator_steps import TENSOR_GEMM, Launched, analyze_steps, tensor

# Adam over 513 million parameters in fp32, as a DLRM has them, on an H200: the median time of each operation (ns).
# Adam(fused=True) saved 5.6 ms of its step.
ELEMENTS, SAVED_NS = 512_668_737, 5_600_000
P, G, M, V, ROOT = (tensor([ELEMENTS], number) for number in range(1, 6))
MULTI = "void at::native::<unnamed>::multi_tensor_apply_kernel<at::native::<unnamed>::TensorListMetadata<(int)2>, "
MULTI += "at::native::<unnamed>::{}<float, (int){}, (int){}, (int)0>, {}>"
ADAM = (
    ("_foreach_lerp_", ("TernaryOpScalarFunctor", 2, 2, "at::native::LerpFunctor<float>"), 1_571_444, (M, G)),
    ("_foreach_mul_", ("BinaryOpScalarFunctor", 1, 1, "std::multiplies<float>"), 1_114_851, (V,)),
    ("_foreach_addcmul_", ("PointwiseOpScalarFunctor", 3, 3, "std::multiplies<float>"), 1_583_292, (V, G, G)),
    ("_foreach_sqrt", ("UnaryOpFunctor", 2, 1, "at::native::Sqrt<float>"), 1_193_267, (V,)),
    ("_foreach_div_", ("BinaryOpScalarListFunctor", 1, 1, "std::divides<float>"), 1_396_415, (ROOT,)),
    ("_foreach_add_", ("BinaryOpScalarFunctor", 1, 1, "std::plus<float>"), 1_120_627, (ROOT,)),
    ("_foreach_addcdiv_", ("PointwiseOpScalarListFunctor", 3, 3, "std::divides<float>"), 2_115_527, (P, M, ROOT)),
)
STEP = ("Optimizer.step#{}.step",)


def kernel(functor, depth, reads, operation):
    return MULTI.format(functor, depth, reads, operation)


def launches(pieces=ADAM, around=STEP, name="Adam"):
    """Return a product and the foreach operations of an optimizer."""
    return [
        Launched("aten::mm", TENSOR_GEMM, 3_500_000),
        *(
            Launched(
                f"aten::{operation}", kernel(*of_kernel), duration_ns, [[one] for one in given],
                [[ROOT]] if operation == "_foreach_sqrt" else (), [text.format(name) for text in around],
            )
            for operation, of_kernel, duration_ns, given in pieces
        ),
        Launched("aten::mm", TENSOR_GEMM, 100_000),
    ]  # fmt: skip


def finding(analysis):
    return next((item for item in analysis.findings.items if item.code == "unfused-optimizer"), None)


@pytest.mark.parametrize("has_facts", [True, False])
def test_an_adam_saves_what_its_fused_form_saved(tmp_path, has_facts):
    analysis = analyze_steps(tmp_path, launches(), has_facts=has_facts)
    found = finding(analysis)
    assert found.saving_ns == pytest.approx(SAVED_NS, abs=0.15 * analysis.findings.step_ns)
    assert found.saving_low_ns < SAVED_NS < found.saving_high_ns
    # Operators have ranges, which name the optimizer, even without their tensors.
    assert found.next_step == "torch.optim.Adam(..., fused=True)."
    assert ("34.4 GiB are moved, 13.4 GiB in one pass" in found.text) == has_facts


def test_kernels_of_a_foreach_optimizer_are_its_category(tmp_path):
    analysis = analyze_steps(tmp_path, launches(around=()), has_facts=False)
    work = analysis.work
    assert finding(analysis).next_step == "Make the optimizer with fused=True."
    of_device = work[work["range"].isna()].set_index("category")["kernel_count"]
    assert of_device.to_dict() == {"optimizer": 8 * len(ADAM), "gemm": 16}


def test_operators_tell_an_optimizer_whose_kernels_could_be_anything(tmp_path):
    # SGD with momentum: its buffer is scaled, gets the gradient, and is added to the parameters.
    plain = ("BinaryOpListAlphaFunctor", 2, 2, "std::plus<float>")
    pieces = (ADAM[1], ("_foreach_add_", plain, 1_571_444, (V, G)), ("_foreach_add_", plain, 1_571_444, (P, V)))
    found = finding(analyze_steps(tmp_path, launches(pieces, name="SGD")))
    # Eight passes become five.
    assert found.saving_ns == pytest.approx(4_257_739 * (1 - 1.2 * 5 / 8), rel=0.05)
    assert found.next_step == "torch.optim.SGD(..., fused=True)."
    assert finding(analyze_steps(tmp_path, launches(pieces), has_facts=False)) is None
    (tmp_path / "other").mkdir()
    without = finding(analyze_steps(tmp_path / "other", launches(name="RMSprop")))
    assert without.next_step == "torch.compile(optimizer.step), since RMSprop has no fused form."


def test_clipping_and_averages_are_no_optimizer(tmp_path):
    clip = ("_foreach_mul_", ("BinaryOpScalarTensorFunctor", 1, 1, "std::multiplies<float>"), 1_114_851, (G,))
    average = ("_foreach_lerp_", ADAM[0][1], 1_571_444, (M, P))
    analysis = analyze_steps(tmp_path, launches((clip, average), around=()))
    assert finding(analysis) is None
    assert "optimizer" not in set(analysis.work["category"])


def embedding(indices):
    sides = [tensor([indices, 64], 20), tensor([indices], 21, "long int")], [tensor([ELEMENTS // 64, 64], G["storage"])]
    return Launched("aten::_embedding_bag_dense_backward", TENSOR_GEMM, 100_000, *sides)


@pytest.mark.parametrize(("indices", "is_sparse"), [(262_144, True), (4_000_000, False)])
def test_tables_with_few_gradients_are_said_to_be_sparse(tmp_path, indices, is_sparse):
    text = finding(analyze_steps(tmp_path, [embedding(indices), *launches()])).text
    assert ("At most 3.3 % of the 8,010,449 rows of embeddings have a gradient in a step" in text) == is_sparse


def test_a_table_that_is_used_twice_is_not_sparse(tmp_path):
    twice = Launched("aten::add_", TENSOR_GEMM, 100_000, [G, tensor([ELEMENTS], 30)], [G])
    assert "embeddings" not in finding(analyze_steps(tmp_path, [embedding(262_144), twice, *launches()])).text


def test_facts_that_make_no_sense_are_left_out(tmp_path):
    strange = embedding(262_144)
    strange.outputs = [tensor([], G["storage"])]
    assert "embeddings" not in finding(analyze_steps(tmp_path, [strange, *launches()])).text


def test_where_the_host_sets_the_pace_nothing_is_promised(tmp_path):
    # An encoder of 102 million parameters: its step took 25.1 to 28.5 ms with foreach, and 29.4 to 30.8 ms fused.
    small = tuple((name, of_kernel, took // 5, given) for name, of_kernel, took, given in ADAM)
    assert finding(analyze_steps(tmp_path, launches(small), host_ns=3_000_000)) is None
