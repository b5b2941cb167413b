"""A bundle has the operators of a capture: the same table, but for tokens, and no secret that was planted in them."""

from __future__ import annotations

import csv
import json
import lzma
import sqlite3
import zipfile
from pathlib import Path

import pytest

from nsysprof.app.bundle import bundle
from nsysprof.app.inputs.reading_requests import BundleRequest
from nsysprof.app.trace_analysis.assemble import assemble
from nsysprof.bundle.name_tokens import NameTokens
from nsysprof.bundle.operator_file import clean_operators
from nsysprof.capture.manifest import program_manifest, write_manifest
from nsysprof.report.write import write_analysis
from tests.bundle.test_leaks import everything
from tests.conftest import REPOSITORY

KEYS = ("calls", "kernel_count", "kernel_total_ns", "flops", "least_bytes", "floor_ns", "limit", "shapes", "dtype")
# Names of a program's own, each with the word that must not be shared.
OWN = {
    "aten::gelu": "zanzibar::gelu", "GeluBackward0": "ZanzibarBackward", "AddmmBackward0": "ZanzibarLinearBackward",
    "Optimizer.step#AdamW.step": "Optimizer.step#Zanzibar.step",
}  # fmt: skip


@pytest.fixture(autouse=True)
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nsysprof.report.write._write_figures", lambda *_arguments, **_options: [])


@pytest.fixture
def capture(trace_path, tmp_path: Path) -> Path:
    """Return a capture of an H200 with operators in which names, lines, paths of modules and values are private."""
    folder = tmp_path / "capture"
    folder.mkdir()
    trace = folder / "nsys.sqlite"
    trace.write_bytes(trace_path("h200-operators/gpt").read_bytes())
    packed = REPOSITORY / "traces/h200-operators/gpt.operators.json.xz"
    facts = json.loads(lzma.decompress(packed.read_bytes()))
    connection = sqlite3.connect(trace)
    for table, column in (("StringIds", "value"), ("NVTX_EVENTS", "text")):
        for before, after in (
            *OWN.items(),
            ("blocks.3.", "blocks.3.zanzibar."),
            ("<redacted>:", "/home/z/zanzibar.py:"),
        ):
            connection.execute(f"UPDATE {table} SET {column} = replace({column}, ?, ?)", (before, after))
    connection.commit()
    connection.close()
    for operator in facts["operators"]:
        operator["name"] = OWN.get(operator["name"], operator["name"])
        operator["zanzibar"] = "zanzibar"
        if operator["name"] == "aten::layer_norm":
            operator["inputs"] += ["zanzibar", 7071727374757677, [1, 7071727374757677], {"zanzibar": 1}]
            operator["inputs"][0] |= {"zanzibar": "zanzibar"}
        if operator["name"] == "aten::addmm":
            operator["inputs"].append({"sizes": [1], "type": "c10::Zanzibar", "tensor": "zanzibar", "storage": 1})
    (folder / "nsys.operators-4.json").write_text(json.dumps(facts | {"zanzibar": "zanzibar"}))
    write_manifest(folder, program_manifest(("train",), {}))
    return folder


def operators_of(folder: Path, out: Path) -> list[dict[str, str]]:
    analysis = assemble(folder, folder / "nsys.sqlite").analysis
    write_analysis(analysis, None, out, figures=False)
    with (out / "operators.csv").open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.slow
def test_the_operators_of_a_bundle_are_those_of_its_capture_but_for_tokens(capture: Path, tmp_path: Path) -> None:
    done = bundle(BundleRequest(capture, tmp_path / "b.zip"))
    found = everything(tmp_path / "b.zip") + done.markdown.encode()
    assert b"zanzibar" not in found.lower() and b"7071727374757677" not in found
    unpacked = tmp_path / "unpacked"
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        archive.extractall(unpacked)
    folder = next(unpacked.rglob("bundle.json")).parent
    packed = folder / "nsys.sqlite.xz"
    (folder / "nsys.sqlite").write_bytes(lzma.decompress(packed.read_bytes()))
    before, after = operators_of(capture, tmp_path / "before"), operators_of(folder, tmp_path / "after")
    assert [[row[key] for key in KEYS] for row in after] == [[row[key] for key in KEYS] for row in before]
    assert (folder / "analysis/operators.csv").read_text() == (tmp_path / "after/operators.csv").read_text()
    names = {row["operator"]: new["operator"] for row, new in zip(before, after, strict=True)}
    assert names["zanzibar::gelu"].startswith("<operator-")
    assert all(new == old for old, new in names.items() if old.startswith("aten::"))
    layers = {row["layer"]: new["layer"] for row, new in zip(before, after, strict=True)}
    assert layers["blocks.0.up"] == "blocks.0.up"
    assert layers["blocks.3.zanzibar.up"].startswith("blocks.3.<module-")
    lines = {new["location"] for new in after if new["location"]}
    assert lines and all(line.startswith("<file-") and line.rpartition(":")[2].isdigit() for line in lines)
    assert {row["pass"] for row in after} == {row["pass"] for row in before} >= {"optimizer", "backward"}


def test_names_are_kept_where_that_is_asked_for(capture: Path, tmp_path: Path) -> None:
    bundle(BundleRequest(capture, tmp_path / "b.zip", keep_names=True))
    found = everything(tmp_path / "b.zip")
    assert b"zanzibar::gelu" in found and b"7071727374757677" not in found


def test_a_damaged_file_is_an_error_and_a_part_of_a_trace_has_none(capture: Path, tmp_path: Path) -> None:
    done = bundle(BundleRequest(capture, tmp_path / "a.zip", ranges=("*DeviceRadixSort*",)))
    assert not any("operators-" in name for name in done.sizes)
    (capture / "nsys.operators-4.json").write_text("[")
    with pytest.raises(Exception, match=r"nsys.operators-4.json is damaged"):
        bundle(BundleRequest(capture, tmp_path / "b.zip"))


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("aten::mm, op_id = 7, sizes = [[4, 4], [4, 4]], input_op_ids = [(5,0)]", "aten::mm, op_id = 7"),
        ("AddmmBackward0, seq = 12, op_id = 7", "AddmmBackward0, seq = 12, op_id = 7"),
        ("acme::sort, op_id = 7, sizes = [[4]]", "<operator-1>, op_id = 7"),
        ("acme::embed_index_, op_id = 7", "<operator-1 gather>_, op_id = 7"),
        ("autograd::engine::evaluate_function: AcmeBackward, op_id = 7",
         "autograd::engine::evaluate_function: <operator-1>, op_id = 7"),
        ("Optimizer.step#Acme.step, op_id = 7", "Optimizer.step#<operator-1>, op_id = 7"),
        ("nsysprof layer layers.3.acme @ a/b.py:17, op_id = 7",
         "nsysprof layer layers.3.<module-1> @ <file-1>:17, op_id = 7"),
        ("nsysprof operators", "nsysprof operators"),
        ("acme, op_id = 7071727374757677", "<range-1>"),
        ("acme, op_id = 7, my own words", "<range-1>"),
    ],
)  # fmt: skip
def test_ranges_of_operators_keep_their_grammar(name: str, kept: str) -> None:
    names = NameTokens()
    assert names.range(name) == kept
    if "op_id" in kept:
        assert names.range(kept) == kept, "a token is public"


def test_an_operator_has_one_token_in_trace_and_file() -> None:
    names = NameTokens()
    ranged = names.range("acme::sort, op_id = 7")
    cleaned = clean_operators({"operators": [{"op_id": 7, "name": "acme::sort", "inputs": [True, 1.5, [True, False]]},
                                             {"op_id": "8", "name": "acme"}, "acme"]}, names)  # fmt: skip
    assert cleaned["operators"] == [
        {
            "op_id": 7,
            "recording": 0,
            "name": ranged.partition(",")[0],
            "inputs": [True, None, [True, False]],
            "outputs": [],
        }
    ]
    assert clean_operators([], names) == {"format_version": 1, "operators": []}
