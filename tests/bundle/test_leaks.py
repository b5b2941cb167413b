"""A secret of every kind, planted wherever a trace or a folder of ours can hold one: none of them is in a bundle."""

from __future__ import annotations

import json
import lzma
import sqlite3
import zipfile
from pathlib import Path

import pytest

from nsysprof.app.bundle import bundle
from nsysprof.app.inputs.reading_requests import BundleRequest
from nsysprof.bundle.check import SecretLeakError
from nsysprof.bundle.public_names import is_revealed_by, page_parts
from tests.bundle.hostile import GLOBAL_TID, write_trace


@pytest.fixture(autouse=True)
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take most of the time; their texts are those of the tables."""
    for module in ("write", "pages.ranks"):
        monkeypatch.setattr(f"nsysprof.report.{module}._write_figures", lambda *_arguments, **_options: [])


# What is shaped like a library's name and is none: each holds the word that must not be shared.
SHAPED_KERNELS = [
    "at::native::Zanzibar", "torch::Zanzibar::run", "cub::DeviceReduce<int>::Zanzibar", "nvjet_Zanzibar",
    "void at::native::elementwise_kernel<(long)4242424242424242>(int)", "cutlass_80_zanzibar_gemm",
    "cudnn_generated_zanzibar", "flash::zanzibar_kernel<float>", "triton_poi_fused_zanzibar_0", "ncclZanzibar",
    "cublasZanzibar", "void std::zanzibar<int>()", "ZanzibarFunctor",
]  # fmt: skip
SHAPED_RANGES = ["ZanzibarBackward0", "torch::autograd::Zanzibar", "aten::zanzibar", "nccl:zanzibar", "cub::Zanzibar",
                 "nsysprof 1.zanzibar", "forward zanzibar"]  # fmt: skip
SHAPED_CALLS = ["dlopen(libzanzibar_torch.so)", "dlopen(libtorch_zanzibar.so)", "cudaZanzibar", "ncclGetZanzibar"]
PLANTED = ("zanzibar", "4242424242424242", "7071727374757677", "2.718281828459")


def everything(archive: Path) -> bytes:
    """Every byte of a bundle, unpacked, but for the scripts that are in every page."""
    found = b""
    with zipfile.ZipFile(archive) as opened:
        for name in opened.namelist():
            content = opened.read(name)
            found += name.encode() + (lzma.decompress(content) if name.endswith(".xz") else content)
    for part in page_parts():
        found = found.replace(part, b"")
    return found


def plant(path: Path, kernels: list[str], ranges: list[str], calls: list[str]) -> Path:
    """Write a trace with these names, and with payloads; return its path."""
    write_trace(path)
    connection = sqlite3.connect(path)
    for column in ("uint64Value INT", "int64Value INT", "doubleValue REAL", "color INT", "binaryData BLOB"):
        connection.execute(f"ALTER TABLE NVTX_EVENTS ADD COLUMN {column}")
    for number, name in enumerate([*kernels, *calls], start=100):
        connection.execute("INSERT INTO StringIds VALUES (?, ?)", (number, name))
        if name in kernels:
            row = (1000 * number, 1000 * number + 10, 0, number, GLOBAL_TID >> 24 << 24, number, number, "")
            connection.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        call = (1000 * number - 9, 1000 * number - 5, GLOBAL_TID, number, number if name in calls else 2)
        connection.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, ?)", call)
    for number, name in enumerate(ranges, start=1):
        connection.execute(
            "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid, uint64Value, int64Value, doubleValue, "
            "color) VALUES (?, ?, 59, ?, ?, 7071727374757677, -7071727374757677, 2.718281828459, 7071727374757677)",
            (number * 10**6, number * 10**6 + 10, name, GLOBAL_TID),
        )
    connection.commit()
    connection.close()
    return path


def test_names_shaped_like_a_librarys_and_payloads_stay_behind(tmp_path: Path) -> None:
    source = plant(tmp_path / "in.sqlite", SHAPED_KERNELS, SHAPED_RANGES, SHAPED_CALLS)
    done = bundle(BundleRequest(source, tmp_path / "b.zip"))
    found = everything(tmp_path / "b.zip") + done.markdown.encode()
    for planted in PLANTED:
        assert planted.encode() not in found.lower(), planted
    assert int.to_bytes(7071727374757677, 8, "big") not in found
    assert done.names_replaced["kernel"] == len(SHAPED_KERNELS)
    assert done.names_replaced["call"] == len(SHAPED_CALLS)


@pytest.mark.parametrize("column", ["category", "rangeId", "domainId"])
def test_a_number_that_is_a_secret_is_not_copied_from_another_kind_of_column(tmp_path: Path, column: str) -> None:
    source = write_trace(tmp_path / "in.sqlite", f"ALTER TABLE NVTX_EVENTS ADD COLUMN {column} TEXT",
                         f"UPDATE NVTX_EVENTS SET {column} = 'zanzibar'")  # fmt: skip
    bundle(BundleRequest(source, tmp_path / "b.zip"))
    assert b"zanzibar" not in everything(tmp_path / "b.zip")


def test_what_only_an_edited_trace_can_say_stays_behind(tmp_path: Path) -> None:
    source = write_trace(
        tmp_path / "in.sqlite",
        "ALTER TABLE NVTX_EVENTS ADD COLUMN category INT; UPDATE NVTX_EVENTS SET category = 1987031455",
        "CREATE TABLE ENUM_CUDA_MEMCPY_OPER (id INT, name TEXT, label TEXT); INSERT INTO ENUM_CUDA_MEMCPY_OPER VALUES "
        "(1, 'CUDA_MEMCPY_KIND_HTOD', 'Host-to-Device'), (2, 'OF_ZANZIBAR', 'Zanzibar-to-Device')",
        "UPDATE TARGET_INFO_GPU SET name = 'NVIDIA Zanzibar'",
        "INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PLATFORM', 'zanzibar'), ('EXPORT_ARCH', 'x64')",
        "INSERT INTO META_DATA_CAPTURE VALUES ('CAPTURE_EVENT_TYPE', 'Zanzibar'), ('COLLECT_ZANZIBAR', 'true')",
    )
    done = bundle(BundleRequest(source, tmp_path / "b.zip"))
    found = everything(tmp_path / "b.zip") + done.markdown.encode()
    assert b"zanzibar" not in found.lower()
    assert int.to_bytes(1987031455, 4, "big") not in found
    assert [text in found for text in (b"Host-to-Device", b"CUDA_MEMCPY_KIND_HTOD", b"x64")] == [True] * 3


def test_what_a_backend_of_ones_own_said_stays_behind(tmp_path: Path) -> None:
    folder = tmp_path / "bench"
    folder.mkdir()
    cases = [
        {"backend": name, "seq": 64, "batch": 1, "heads": 2, "kv_heads": None, "head_dim": 16, "dtype": "fp32",
         "causal": True, "pass": "fwd"} for name in ("math", "zanzibar.kernels:attn")
    ]  # fmt: skip
    blocks = [
        {"cell": 0, "process": 0, "round": 0, "status": "ineligible", "reason": "No available kernel."},
        {
            "cell": 1,
            "process": 0,
            "round": 0,
            "status": "failed",
            "reason": "RuntimeError: the shop in Zanzibar is shut",
        },
    ]
    plan = {"cases": cases, "device": "cpu", "copies": 1}
    from nsysprof.bundle.name_tokens import NameTokens
    from nsysprof.bundle.source import FileCleaner

    cleaned = FileCleaner((), NameTokens()).json("samples.json", {"plan": plan, "blocks": blocks})
    assert cleaned["blocks"][0]["reason"] == "No available kernel."
    assert "anzibar" not in json.dumps(cleaned["blocks"])
    kept = FileCleaner((), NameTokens(keep=True)).json("samples.json", {"plan": plan, "blocks": blocks})
    assert "Zanzibar" in kept["blocks"][1]["reason"]


def test_a_rank_whose_trace_is_damaged_tells_no_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = tmp_path / "zanzibar project" / "job"
    job.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "zanzibar project"))
    write_trace(job / "rank0.sqlite")
    write_trace(job / "rank1.sqlite")
    (job / "rank2.sqlite").write_bytes((job / "rank1.sqlite").read_bytes()[:9000])
    done = bundle(BundleRequest(job, tmp_path / "b.zip"))
    found = everything(tmp_path / "b.zip") + done.markdown.encode()
    assert b"zanzibar" not in found
    assert ("the trace of rank 2", "it is damaged or missing; nsysprof analyze says more") in done.left_out


@pytest.mark.parametrize(
    "variable", ["PYTHONIOENCODING=utf-8", "SLURM_CLUSTER_NAME=excl", "LANG=en_US.UTF-8", "JOB=kern", "SITE=time"]
)
def test_harmless_values_do_not_refuse_a_bundle(tmp_path: Path, variable: str) -> None:
    name, _, value = variable.partition("=")
    row = f"INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_0:ENVIRONMENT_VARIABLE', '{name}=\"{value}\"')"
    bundle(BundleRequest(write_trace(tmp_path / "in.sqlite", row), tmp_path / "b.zip"))
    report = everything(tmp_path / "b.zip")
    assert b"exclusive_kernel_count" in report  # and nothing of our own text was taken for it
    assert b"charset" in report


@pytest.mark.parametrize("value", ["excl", "kern", "zanzibar", "zz0"])
def test_the_same_values_are_taken_out_of_what_the_user_wrote(tmp_path: Path, value: str) -> None:
    rows = (
        f"INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_0:USER_NAME', '{value}')",
        f"INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_0:ENVIRONMENT_VARIABLE', 'SITE=\"{value}\"')",
    )
    source = write_trace(tmp_path / "in.sqlite", *rows, text=f"RUN::math::S1024 of {value} today")
    bundle(BundleRequest(source, tmp_path / "b.zip", keep_names=True))
    assert f" {value} ".encode() not in everything(tmp_path / "b.zip")


def test_a_secret_is_told_where_it_is_a_word_of_its_own() -> None:
    for text in (b"at excl now", b"run-excl/1", b"excl", b'"excl"'):
        start = text.index(b"excl")
        assert is_revealed_by(text, start, start + 4)
    for text in (b"exclusive_kernel_count", b"xexcly"):
        start = text.index(b"excl")
        assert not is_revealed_by(text, start, start + 4)
    assert is_revealed_by(b"xzanzibary", 1, 9)


def test_a_blob_of_zeros_does_not_hold_a_bundle_up(tmp_path: Path) -> None:
    column = "ALTER TABLE NVTX_EVENTS ADD COLUMN binaryData BLOB"
    fill = "UPDATE NVTX_EVENTS SET binaryData = zeroblob(200000)"
    bundle(BundleRequest(write_trace(tmp_path / "in.sqlite", column, fill), tmp_path / "b.zip"))
    assert (tmp_path / "b.zip").exists()


def test_a_table_that_tells_secrets_and_cannot_be_read_refuses_the_bundle(tmp_path: Path) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS id, 'x' AS value FROM n"
    source = write_trace(tmp_path / "in.sqlite", "DROP TABLE StringIds", f"CREATE VIEW StringIds AS {endless}")
    bundle(BundleRequest(source, tmp_path / "b.zip"))  # a view is not read, and nothing of it is shared
    assert (tmp_path / "b.zip").exists()


def test_a_name_in_markdown_is_found_behind_its_backslashes(tmp_path: Path) -> None:
    from nsysprof.bundle.verify import find_leaks
    from nsysprof.report.document import escape_markdown

    (tmp_path / "report.md").write_text(escape_markdown("a zan_zibar@host.example b"))
    assert find_leaks(tmp_path / "report.md", ["zan_zibar@host.example"])
    assert not find_leaks(tmp_path / "report.md", ["other_zibar@host.example"])


def test_the_last_search_still_fails_closed(tmp_path: Path) -> None:
    row = "INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_0:USER_NAME', 'zanzibar')"
    source = write_trace(tmp_path / "in.sqlite", row)
    with pytest.raises(SecretLeakError):
        bundle(BundleRequest(source, tmp_path / "zanzibar.zip"))  # the title is the user's choice, and told
    assert not (tmp_path / "zanzibar.zip").exists()
