"""A name of a megabyte, named by the id of every row, is neither kept nor written once for each of them."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from nsysprof.app.analyze import analyze_trace
from nsysprof.app.bundle import bundle
from nsysprof.app.compare import compare
from nsysprof.app.export import export
from nsysprof.app.inputs.reading_requests import BundleRequest, CompareRequest, ExportRequest
from nsysprof.attention.kernel_family import kernel_family
from nsysprof.kernels.labels import label_kernel
from nsysprof.kernels.names import categorize
from nsysprof.report.write import write_analysis
from nsysprof.trace.table_readers.gpus import LONGEST_NAME, LONGEST_RANGE_NAME, cut_name
from tests.builders.build_trace import TID, TraceBuilder

MEGABYTE = "x" * 1_000_000
MOST_BYTES = 30 << 20  # far below one megabyte for each of the rows, of which there are some hundreds


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Long names of kernels, calls, ranges, domains and devices, each in 200 rows."""
    builder = TraceBuilder("2025.3")
    builder.gpu(0, name=f"GPU {MEGABYTE}", cuda=0)
    builder.put("NVTX_EVENTS", start=0, eventType=75, globalTid=TID, domainId=5, text=f"domain {MEGABYTE}")
    for number in range(1, 201):
        at = 10_000 * number
        builder.range(at, at + 9_000, f"{'even' if number % 2 else 'odd'} {MEGABYTE}", registered=True)
        builder.put("NVTX_EVENTS", start=at + 1, end=at + 8_000, eventType=59, globalTid=TID, domainId=5, text="inner")
        builder.range(at + 2, at + 7_000, f"range {number}")
        builder.launch(at + 100, number, name=f"void kernel_{MEGABYTE}(int)")
        builder.call(at + 4_000, at + 4_100, 1_000 + number, f"cuda{MEGABYTE}")
    return builder.write(tmp_path_factory.mktemp("hostile") / "t.sqlite")


def size_of(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


def test_tables_and_reports(hostile: Path, tmp_path: Path) -> None:
    analysis = analyze_trace(hostile)
    write_analysis(analysis, None, tmp_path / "out", figures=False)
    assert size_of(tmp_path / "out") < MOST_BYTES
    assert analysis.totals.kernel_count == 200
    (kernel,) = analysis.kernels["name"]
    assert kernel.startswith("void kernel_xxx")
    assert f"({len(MEGABYTE) + 22:,} characters, SHA-256 " in kernel
    names = {name for name in analysis.ranges["range"] if "characters" in name}
    assert {name[:5] for name in names} == {"even ", "odd x"}
    assert max(map(len, names)) < LONGEST_RANGE_NAME + 100


@pytest.mark.parametrize("format_", ["perfetto", "chrome", "parquet"])
def test_exports(hostile: Path, tmp_path: Path, format_: str) -> None:
    target = tmp_path / "out"
    export(ExportRequest(hostile, **{format_: target}))
    assert 0 < size_of(target) < MOST_BYTES


@pytest.mark.slow
@pytest.mark.parametrize("keep", [False, True])
def test_bundles(hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: bool) -> None:
    monkeypatch.setattr("nsysprof.report.write._write_figures", lambda *_arguments, **_options: [])
    done = bundle(BundleRequest(hostile, tmp_path / "b.zip", keep_names=keep))
    assert sum(done.sizes.values()) < MOST_BYTES


def test_comparisons_find_the_same_long_name_again(hostile: Path, tmp_path: Path) -> None:
    other = shutil.copyfile(hostile, tmp_path / "other.sqlite")
    result = compare(CompareRequest((hostile,), (other,), out=tmp_path / "out"))
    assert size_of(tmp_path / "out") < MOST_BYTES
    assert "characters, SHA-256" in (tmp_path / "out" / "compare.json").read_text(encoding="utf-8")
    assert {change.how for change in result.comparison.ranges} == {"both"}


def test_names_that_differ_behind_the_cut_stay_apart() -> None:
    one, other = f"{MEGABYTE}1", f"{MEGABYTE}2"
    assert cut_name(one) != cut_name(other)
    assert cut_name(one) == cut_name(one)
    assert len(cut_name(one)) < LONGEST_NAME + 100
    assert cut_name("x" * LONGEST_NAME) == "x" * LONGEST_NAME


def test_a_name_that_was_cut_before_is_cut_as_the_whole_one() -> None:
    """A range's name may stand in its row or among the strings, which are cut once already."""
    assert cut_name(cut_name(MEGABYTE), 1_024) == cut_name(MEGABYTE, 1_024) != cut_name(f"{MEGABYTE}x", 1_024)
    assert cut_name(cut_name(MEGABYTE)) == cut_name(MEGABYTE)


@pytest.mark.parametrize("part", ["x", "elementwise_kernel<", "cub::Device", "sdpa cudnn", "Functor", "lambda(", "_"])
def test_no_rule_for_names_takes_long(part: str) -> None:
    """A rule that begins at every letter of a word took 4 s for one name."""
    name = part * (LONGEST_NAME // len(part))
    begin = time.thread_time()
    label_kernel(name)
    kernel_family([name])
    categorize(name)
    assert time.thread_time() - begin < 1
