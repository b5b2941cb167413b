import pytest

from nsysprof.analysis.kernel_names.variant_names import copy_name, graph_name, kernel_names, plain_call_name
from nsysprof.trace.open import open_trace
from nsysprof.trace.schema import NULL
from nsysprof.trace.tables import read_tables
from tests.builders.build_trace import TraceBuilder


@pytest.mark.parametrize(
    ("name", "plain"),
    [("cudaLaunchKernel_v7000", "cudaLaunchKernel"), ("cudaLaunchKernelExC_v11060", "cudaLaunchKernelExC_v11060"),
     ("cuMemcpyHtoD_v2", "cuMemcpyHtoD_v2")],
)  # fmt: skip
def test_only_a_version_of_four_digits_goes_as_in_nsys_stats(name, plain):
    assert plain_call_name(name) == plain


def test_unknown_kinds_and_graphs_have_names_too():
    assert copy_name(1) == "[CUDA memcpy Host-to-Device]"
    assert copy_name(99) == "[CUDA memcpy kind 99]"
    assert copy_name(NULL) == "[CUDA memcpy of unknown kind]"
    assert (graph_name(3), graph_name(NULL)) == ("[CUDA graph 3]", "[CUDA graph]")


def test_kernels_of_one_name_have_one_number_and_no_two_labels_are_equal(tmp_path):
    builder = TraceBuilder()
    for number, name in enumerate(("gemm", "softmax", "gemm")):
        builder.launch(1000 * number, number + 1, name=name)
    builder.kernel(5000, 5050, 9, "gemm", stream=8)
    with open_trace(builder.write(tmp_path / "t.sqlite")) as trace:
        tables = read_tables(trace)
    names = kernel_names(tables)
    assert sorted(names.short) == ["gemm", "softmax"]
    assert len(set(names.label)) == 2
    by_row = names.short[names.numbers(tables.work.variant)].tolist()
    assert sorted(by_row) == ["gemm", "gemm", "gemm", "softmax"]
