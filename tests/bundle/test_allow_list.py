"""What nsys and nsysprof write of a recording stays; the same fields with anything else in them do not."""

import pytest

from nsysprof.bundle.allow_list import keeps_label, keeps_metadata


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CAPTURE_EVENT_TYPE", "NvtxEvents"),
        ("EXPORT_PRODUCT_VERSION", "2025.5.1.121-255136380782v0"),
        ("EXPORT_SCHEMA_VERSION", "3.20.3"),
        ("EXPORT_SCHEMA_VERSION_CKSUM", "2307844469 139029"),
        ("EXPORT_PLATFORM", "linux-desktop"),
        ("EXPORT_PARAM_TABLES_TO_EXPORT", "NVTX_EVENTS,CUPTI_ACTIVITY_KIND_KERNEL"),
        ("EXPORT_PARAM_TIMES_TO_EXPORT", "10s/20s"),
        ("PROCESS_0:COLLECT_GPU_MEMORY_USAGE", "true"),
        ("PROCESS_12:CUDA_GRAPH_TRACE_OPTIONS:MODE", "Node"),
        ("GPU_METRICS_OPTIONS:GPU_0:METRIC_SET_INDEX", "5"),
        ("NSYSPROF:TOOL_VERSION", "2.6.0a0+ecf3bae40a.nv25.01"),
        ("NSYSPROF:TOOL_VERSION", "2.9.1+cu128"),
        ("NSYSPROF:LEFT_OUT", "everything outside the requested ranges, GPU_METRICS"),
    ],
)
def test_what_nsys_writes_stays(name: str, value: str) -> None:
    assert keeps_metadata(name, value)
    for planted in ("zanzibar", f"{value} zanzibar", f"zanzibar.{value}", "4294967296071717", f"{value}\n"):
        assert not keeps_metadata(name, planted), planted


@pytest.mark.parametrize(
    "name", ["COLLECT_ZANZIBAR", "PROCESS_0:COLLECT_ZANZIBAR_TRACE", "PROCESS_7071727:COLLECT_CUDA_TRACE",
             "GPU_METRICS_ZANZIBAR", "NSYSPROF:ZANZIBAR", "CUDA_FLUSH_ZANZIBAR"]
)  # fmt: skip
def test_names_of_metadata_are_those_of_nsys(name: str) -> None:
    assert not keeps_metadata(name, "true")


@pytest.mark.parametrize(
    ("table", "column", "text"),
    [
        ("ENUM_CUDA_MEMCPY_OPER", "name", "CUDA_MEMCPY_KIND_HTOD"),
        ("ENUM_CUDA_MEMCPY_OPER", "label", "Unified Host-to-Device"),
        ("ENUM_NSYS_EVENT_CLASS", "label", "OS runtime libraries"),
        ("TARGET_INFO_GPU_METRICS", "metricName", "PCIe RX Throughput [Throughput %]"),
        ("TARGET_INFO_GPU", "name", "NVIDIA GeForce RTX 3080 Laptop GPU"),
        ("TARGET_INFO_GPU", "name", "NVIDIA A100-SXM4-80GB MIG 1g.10gb"),
        ("TARGET_INFO_GPU", "name", "NVIDIA H100 80GB HBM3"),
        ("TARGET_INFO_GPU_V2", "name", "NVIDIA RTX PRO 6000 Blackwell Server Edition"),
        ("TARGET_INFO_CUDA_GPU", "name", "AMD Instinct MI300X"),
        ("TARGET_INFO_GPU", "chipName", "GB202"),
        ("TARGET_INFO_GPU", "name", "cpu"),
    ],
)
def test_labels_and_names_of_gpus(table: str, column: str, text: str) -> None:
    assert keeps_label(table, column, text)
    for planted in ("zanzibar", f"{text} zanzibar", f"zanzibar{text}", f"{text} 7071727374757677", f"{text}\n"):
        assert not keeps_label(table, column, planted), planted
