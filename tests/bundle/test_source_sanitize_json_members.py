"""The list of what may be shared keeps up with what is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import fields

from nsysprof.attention.shape import Case
from nsysprof.bundle.source import ENVIRONMENT_KEYS, JSON_KEYS, MEMBERS
from nsysprof.capture.environment import summarize_clocks
from nsysprof.capture.manifest import Manifest
from nsysprof.capture.sampling.bench_run import BenchPlan, new_run
from nsysprof.environment import collect_host
from nsysprof.notes import Note, Severity
from nsysprof.nsight.run_tool import Step
from nsysprof.results.checks import COMPARABLE_FIELDS
from nsysprof.results.column_registry.case_columns import BENCH_RESULTS, CAPTURE_RESULTS
from nsysprof.results.column_registry.column import Dtype, TableFile
from nsysprof.results.samples import Block
from nsysprof.trace.inputs.bundle_file import MEMBER_NAME

_CLOCK = dict.fromkeys(("sm_clock_mhz", "memory_clock_mhz", "temperature_c", "power_w"), 1) | {"throttle_reasons": []}


def keys(data: Any) -> set[str]:
    """Return the keys of an object and of all in it."""
    if isinstance(data, list):
        return set().union(*map(keys, data))
    return set(data).union(*map(keys, data.values())) if isinstance(data, dict) else set()


def test_every_field_that_a_capture_writes_is_on_the_list() -> None:
    clocks = summarize_clocks([{**_CLOCK, "case": 0}])
    manifest = Manifest((Case("math", seq=1, kv_heads=4),), (), "nsys", 1, "", "", environment={"clocks": clocks})
    manifest.steps.append(Step("nsys", ("nsys",), 0, 1))
    manifest.notes.append(Note("a-b", Severity.INFO, "text"))
    assert keys(manifest.to_json()) - {"nsysprof_version"} <= JSON_KEYS


def test_every_field_that_a_bench_writes_is_on_the_list(tmp_path: Path) -> None:
    run = new_run(BenchPlan((Case("math", seq=1),), "cpu", 1, 1, 1))
    run.ceilings = {"bytes_per_s": 1, "flops": {}}
    run.clocks = [{**_CLOCK, "case": 0, "time_ns": 1}]
    run.save(tmp_path)
    assert keys(json.loads((tmp_path / "samples.json").read_text())) - {"nsysprof_version"} <= JSON_KEYS
    assert {field.encode_name for field in fields(Block)} <= JSON_KEYS


def test_every_fact_of_the_environment_is_on_the_list() -> None:
    assert set(collect_host()) | set(COMPARABLE_FIELDS) | {"comparable_hash"} <= ENVIRONMENT_KEYS


@pytest.mark.parametrize("file", [CAPTURE_RESULTS, BENCH_RESULTS], ids=lambda file: file.folder)
def test_every_text_of_a_table_is_on_the_list(file: TableFile) -> None:
    member = next(member for member in MEMBERS if member.name == file.name)
    assert set(file.of_dtype(Dtype.TEXT)) <= set(member.texts)


def test_members_have_names_that_an_archive_takes() -> None:
    assert all(MEMBER_NAME.fullmatch(member.name) for member in MEMBERS)
