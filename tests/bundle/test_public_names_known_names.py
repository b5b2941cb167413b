import pytest

from nsysprof.bundle.public_names import is_autograd_node, is_cuda_call, is_library_word, is_operator


def test_operators_are_known_with_and_without_the_mark_of_in_place_ones():
    assert is_operator("mm")
    assert is_operator("add_")
    assert not is_operator("acme_mm")


def test_calls_of_cuda_are_known_in_every_version():
    assert all(map(is_cuda_call, ("cudaMalloc", "cudaMalloc_v3020", "cuMemcpyHtoD_v2_ptds")))
    assert not is_cuda_call("cudaMallocAcme")


def test_nodes_of_autograd_are_known():
    assert is_autograd_node("AddmmBackward0")
    assert not is_autograd_node("AcmeBackward0")


@pytest.mark.parametrize(
    ("word", "known"),
    [
        ("softmax_kernel_cuda", True),
        ("SigmoidBackward", True),
        ("ampere_sgemm_128x64_tn", True),
        ("ampere_acme_128x64_tn", False),
        ("acme_kernel_cuda", False),
    ],
)
def test_generated_names_are_made_of_known_parts_alone(word, known):
    assert is_library_word(word) is known
