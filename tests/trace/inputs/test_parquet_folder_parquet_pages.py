"""Parquet files that lie: the headers of their pages claim what the footer does not say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="needs the extra [parquet]")
parquet = pytest.importorskip("pyarrow.parquet")

from nsysprof.errors import TraceForeignError  # noqa: E402
from nsysprof.trace.inputs import parquet_folder  # noqa: E402
from nsysprof.trace.inputs.parquet_folder import convert_parquet_folder  # noqa: E402

TABLE = "CUPTI_ACTIVITY_KIND_KERNEL.parquet"


def write(folder: Path, count: int = 200, **options: Any) -> Path:
    folder.mkdir()
    table = pa.table({"start": list(range(count)), "end": [number % 7 for number in range(count)]})
    parquet.write_table(table, folder / TABLE, **options)
    return folder


def convert(folder: Path) -> Path:
    return convert_parquet_folder(folder, folder.parent / "t.sqlite")


@pytest.mark.parametrize("options", [{}, {"compression": "zstd"}, {"use_dictionary": False}, {"data_page_size": 64}])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_what_arrow_writes_is_read(tmp_path: Path, options: dict[str, Any], version: str) -> None:
    assert convert(write(tmp_path / "p", data_page_version=version, **options)).exists()


def test_a_page_that_claims_more_than_the_footer(tmp_path: Path) -> None:
    """Its reader would allocate what the header says, up to two gigabytes, for a file of a few hundred bytes."""
    folder = write(tmp_path / "p", use_dictionary=False, compression="none", write_statistics=False)
    content = bytearray((folder / TABLE).read_bytes())
    # The first page begins with its kind and its size, each an integer (0x15) of Thrift.
    at = 4
    assert content[at : at + 3] == b"\x15\x00\x15"
    at += 3
    assert content[at] & 0x80
    content[at : at + 2] = b"\xfe\x7f"
    (folder / TABLE).write_bytes(content)
    with pytest.raises(TraceForeignError, match="claims more than the footer"):
        convert(folder)


@pytest.mark.parametrize("encoding", ["DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"])
def test_encodings_in_which_a_few_bytes_are_many_values(tmp_path: Path, encoding: str) -> None:
    if encoding == "BYTE_STREAM_SPLIT" and int(pa.__version__.split(".")[0]) < 17:
        pytest.skip("this pyarrow writes no integers in it")
    names = {"start": encoding, "end": encoding}
    folder = write(tmp_path / "p", use_dictionary=False, column_encoding=names)
    with pytest.raises(TraceForeignError, match="an encoding that nsys never writes"):
        convert(folder)


def test_a_footer_of_megabytes_is_not_parsed(tmp_path: Path) -> None:
    folder = tmp_path / "p"
    folder.mkdir()
    table = pa.table({"start": [1], "end": [2]}).replace_schema_metadata({"x": "y" * (2 << 20)})
    parquet.write_table(table, folder / TABLE)
    with pytest.raises(TraceForeignError, match="its footer has"):
        convert(folder)


def test_a_table_that_takes_longer_than_its_size_allows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path / "p")
    monkeypatch.setattr(parquet_folder, "_LEAST_SECONDS", -1.0)
    with pytest.raises(TraceForeignError, match="far longer to read"):
        convert(folder)
