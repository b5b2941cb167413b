"""The rebuild: what stays, what goes, and that nothing in the source's schema runs."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from nsysprof.bundle import sanitize
from nsysprof.bundle.name_tokens import NameTokens
from nsysprof.bundle.sanitize import SanitizeOptions, sanitize_trace
from nsysprof.bundle.verify import SecretLeakError
from nsysprof.errors import OutputError, TraceDamagedError, TraceForeignError
from nsysprof.trace import confine
from nsysprof.trace.open import open_trace
from nsysprof.trace.table_readers.collective_payloads import read_collective_payloads
from nsysprof.trace.tables import read_tables
from tests.builders.build_trace import TraceBuilder
from tests.builders.verify_sanitized import verify_sanitized
from tests.bundle.hostile import HOME, MAIN_TID, TOKEN, write_trace
from tests.conftest import REPOSITORY
from tests.trace.table_readers.test_native_stacks import trace_with_stacks

KEEP_NAMES = SanitizeOptions(NameTokens(keep=True))
REAL_TRACES = sorted(path.name.removesuffix(".sqlite.xz") for path in (REPOSITORY / "traces").glob("*.sqlite.xz"))


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def test_private_values_go_and_the_work_stays(tmp_path: Path) -> None:
    source, target = write_trace(tmp_path / "in.sqlite"), tmp_path / "out.sqlite"
    before = source.read_bytes()

    report = sanitize_trace(source, target, KEEP_NAMES)

    content = target.read_bytes()
    for private in (TOKEN, "alice", "my project", "hi there", "wonderland-9", "GPU-1234", "0000:01", "bash"):
        assert private.encode() not in content, private
    assert verify_sanitized(source, target, ["wonderland"]) == []
    assert rows(target, "SELECT start, end, correlationId FROM CUPTI_ACTIVITY_KIND_KERNEL") == [(10, 20, 7)]
    assert rows(target, "SELECT id, value FROM StringIds ORDER BY id") == [
        (1, "void gemm<float>(int)"),
        (2, "cudaLaunchKernel_v7000"),
        (3, "load <path-1>"),
    ]
    assert rows(target, "SELECT name FROM TARGET_INFO_GPU") == [("NVIDIA H200",)]
    assert rows(target, "SELECT value FROM META_DATA_CAPTURE") == [("Graph",), ("Cuda",)]
    assert rows(target, "SELECT text FROM DIAGNOSTIC_EVENT") == [
        ("Profiling has started.",),
        ("Loaded CUPTI library: <path>",),
    ]
    assert report.dropped_tables == ["PROCESSES"]
    assert report.dropped_columns["CUPTI_ACTIVITY_KIND_KERNEL"] == ["ownerNote"]
    assert report.dropped_rows == {"DIAGNOSTIC_EVENT": 1, "META_DATA_CAPTURE": 6, "META_DATA_EXPORT": 1}
    assert report.rows["StringIds"] == 3
    assert report.dropped_strings == 2
    assert source.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.sqlite", "out.sqlite"]


def test_process_and_thread_numbers_change_together(tmp_path: Path) -> None:
    target = tmp_path / "out.sqlite"
    sanitize_trace(write_trace(tmp_path / "in.sqlite"), target)

    ((kernel_pid,),) = rows(target, "SELECT globalPid FROM CUPTI_ACTIVITY_KIND_KERNEL")
    threads = [tid for (tid,) in rows(target, "SELECT globalTid FROM CUPTI_ACTIVITY_KIND_RUNTIME ORDER BY start")]
    ((device_pid,),) = rows(target, "SELECT pid FROM TARGET_INFO_CUDA_DEVICE")

    assert isinstance(kernel_pid, int)
    assert kernel_pid >> 48 == MAIN_TID >> 48  # machine bits stay
    assert {tid & -0x1000000 for tid in threads} == {kernel_pid}  # type: ignore[operator]
    assert kernel_pid >> 24 & 0xFFFFFF == device_pid == 1
    assert [tid & 0xFFFFFF for tid in threads] == [2, 1]  # type: ignore[operator]  # the main thread equals its pid


def test_the_same_source_gives_the_same_bytes(tmp_path: Path) -> None:
    source = write_trace(tmp_path / "in.sqlite")
    sanitize_trace(source, tmp_path / "a.sqlite")
    sanitize_trace(source, tmp_path / "b.sqlite")
    assert (tmp_path / "a.sqlite").read_bytes() == (tmp_path / "b.sqlite").read_bytes()


def test_public_words_in_the_environment_leave_range_names_alone(tmp_path: Path) -> None:
    source = write_trace(tmp_path / "in.sqlite", text="RUN::flash::S1024")
    sanitize_trace(source, tmp_path / "out.sqlite")
    assert ("RUN::flash::S1024",) in rows(tmp_path / "out.sqlite", "SELECT text FROM NVTX_EVENTS")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"step {TOKEN}!", "step <redacted>!"),
        ("open https://alice:pw@example.org/x now", "open <url-1> now"),
        (f"cd {HOME}/my project/run", "cd <path-1>"),
        ("mail bob@example.org", "mail <email>"),
        ("1024 tokens/s, aten/src/ATen", "1024 tokens/s, aten/src/ATen"),
    ],
)
def test_range_names_are_redacted(tmp_path: Path, text: str, expected: str) -> None:
    source = write_trace(tmp_path / "in.sqlite", text=text)
    sanitize_trace(source, tmp_path / "out.sqlite", KEEP_NAMES)
    assert rows(tmp_path / "out.sqlite", "SELECT text FROM NVTX_EVENTS WHERE text NOT NULL") == [(expected,)]


@pytest.mark.parametrize(
    "attack",
    [
        f"CREATE VIEW CUPTI_ACTIVITY_KIND_MEMCPY AS SELECT '{TOKEN}' AS bytes",
        f"CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (bytes INT, value AS ('{TOKEN}'))",
        f'CREATE TABLE "weird ""; DROP TABLE StringIds; --" ("{TOKEN}" INT)',
        'CREATE TABLE GPU_METRICS ("value) --" INT, [a"b] INT, value INT); INSERT INTO GPU_METRICS VALUES (1,2,3)',
        f"CREATE TABLE GPU_METRICS (value INT /* {TOKEN} */); INSERT INTO GPU_METRICS VALUES ('{TOKEN}')",
        "CREATE TRIGGER t AFTER INSERT ON NVTX_EVENTS BEGIN DELETE FROM NVTX_EVENTS; END",
        f"CREATE INDEX i ON NVTX_EVENTS (text) WHERE text <> '{TOKEN}'",
        f"CREATE TABLE ENUM_CUDA_NEW (id INT, name TEXT, label TEXT); "
        f"INSERT INTO ENUM_CUDA_NEW VALUES (1, '{TOKEN}', x'00ff')",
        f"INSERT INTO META_DATA_CAPTURE VALUES ('COLLECT_X', '{TOKEN}'), ('{TOKEN}', 'x'), (NULL, NULL)",
        f"INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES ('{TOKEN}', x'00', '{TOKEN}')",
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (globalPid) VALUES (NULL), (-1), (0), (-144115188075855872)",
    ],
)
def test_hostile_schemas_do_not_run_and_do_not_leak(tmp_path: Path, attack: str) -> None:
    source = write_trace(tmp_path / "in.sqlite", attack)
    target = tmp_path / "out.sqlite"
    sanitize_trace(source, target)
    assert TOKEN.encode() not in target.read_bytes()
    assert rows(target, "SELECT count(*) FROM NVTX_EVENTS") == [(2,)]
    assert rows(target, "SELECT DISTINCT type FROM sqlite_master") == [("table",)]
    assert rows(target, "PRAGMA freelist_count") == [(0,)]


def test_a_virtual_table_is_dropped_unread(tmp_path: Path) -> None:
    attack = f"CREATE VIRTUAL TABLE GPU_METRICS USING fts5(value); INSERT INTO GPU_METRICS VALUES ('{TOKEN}')"
    report = sanitize_trace(write_trace(tmp_path / "in.sqlite", attack), tmp_path / "out.sqlite")
    assert "GPU_METRICS" in report.dropped_tables
    assert "GPU_METRICS" not in report.rows


@pytest.mark.parametrize("ranges", [(), ("mine *",)])
def test_only_the_reading_of_names_counts_against_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ranges: tuple[str, ...]
) -> None:
    """A trace of a hundred megabytes with names in its rows was called damaged on a slow machine."""
    builder = TraceBuilder()
    for number in range(20):
        builder.range(number * 10, number * 10 + 5, f"mine {number % 4}")
    trace, asked = builder.write(tmp_path / "t.sqlite"), list[str]()

    def burn(_: NameTokens, name: str) -> str:
        asked.append(name)
        begun = time.thread_time()
        while time.thread_time() < begun + 0.3:
            pass
        return "<range>"

    monkeypatch.setattr(confine, "_LEAST_SECONDS", 0.5)
    monkeypatch.setattr(confine, "_STEPS", 1)
    monkeypatch.setattr(sanitize, "_ROWS_AT_ONCE", 2)
    monkeypatch.setattr(NameTokens, "range", burn)
    report = sanitize_trace(trace, tmp_path / "made.sqlite", SanitizeOptions(ranges=ranges))
    assert (report.rows["NVTX_EVENTS"], report.redacted_texts) == (20, 20)
    assert len(asked) == 4, "each name is looked at once"


def test_a_leak_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Blind(sanitize.Redactor):
        def redact(self, text: str) -> str:
            return text

    monkeypatch.setattr(sanitize, "Redactor", Blind)
    source = write_trace(tmp_path / "in.sqlite", text=TOKEN)
    with pytest.raises(SecretLeakError) as caught:
        sanitize_trace(source, tmp_path / "out.sqlite", KEEP_NAMES)
    assert caught.value.exit_code == 13
    assert TOKEN not in caught.value.text
    assert [path.name for path in tmp_path.iterdir()] == ["in.sqlite"]


def test_a_target_that_exists_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out.sqlite").write_text("mine")
    with pytest.raises(OutputError):
        sanitize_trace(write_trace(tmp_path / "in.sqlite"), tmp_path / "out.sqlite")
    assert (tmp_path / "out.sqlite").read_text() == "mine"


def test_sources_that_are_no_traces(tmp_path: Path) -> None:
    (tmp_path / "text.sqlite").write_text("hello")
    with pytest.raises(TraceForeignError):
        sanitize_trace(tmp_path / "text.sqlite", tmp_path / "out.sqlite")
    whole = write_trace(tmp_path / "in.sqlite").read_bytes()
    (tmp_path / "cut.sqlite").write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    with pytest.raises(TraceDamagedError):
        sanitize_trace(tmp_path / "cut.sqlite", tmp_path / "out.sqlite")
    assert not (tmp_path / "out.sqlite").exists()


@pytest.mark.parametrize("name", REAL_TRACES)
def test_real_traces_keep_every_row_of_every_table_of_work(
    trace_path: Callable[[str], Path], tmp_path: Path, name: str
) -> None:
    source, target = trace_path(name), tmp_path / "out.sqlite"
    report = sanitize_trace(source, target, KEEP_NAMES)
    work = {table for table in report.rows if table.startswith(("CUPTI_", "CUDA_", "NVTX_E", "GPU_M", "TARGET_"))}
    assert work
    for table in work:
        query = f"SELECT count(*) FROM {table}"
        assert rows(target, query) == rows(source, query)
    names = "SELECT s.value, count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds s ON s.id = r.nameId GROUP BY 1"
    assert rows(target, names) == rows(source, names)


def test_waits_of_the_host_stay_and_nothing_else_of_its_calls(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.call(10, 20, 1)
    builder.kernel(30, 40, 1)
    for name in ("poll", "acme_secret_call"):
        builder.system_call(1_000_000, 2_000_000, name)
    target = tmp_path / "out.sqlite"
    sanitize_trace(builder.write(tmp_path / "in.sqlite"), target)
    names = "SELECT s.value FROM OSRT_API o JOIN StringIds s ON s.id = o.nameId"
    assert {name for (name,) in rows(target, names)} == {"poll", "<call-1>"}
    with open_trace(target) as trace:
        waits = read_tables(trace).waits
    assert waits is not None
    assert waits[["start_ns", "end_ns"]].to_numpy().tolist() == [[1_000_000, 2_000_000]]


def test_sizes_and_ranks_of_collectives_stay(trace_path: Callable[[str], Path], tmp_path: Path) -> None:
    source, target = trace_path("h200-ranges/nccl"), tmp_path / "out.sqlite"
    sanitize_trace(source, target)
    found = []
    for path in (source, target):
        with open_trace(path) as trace:
            found.append(read_collective_payloads(trace))
    before, after = found
    assert before is not None
    assert after is not None
    assert len(before) > 100
    same = ["start_ns", "message_bytes", "ranks", "rank", "peer"]
    pd.testing.assert_frame_equal(before[same], after[same])
    assert before["communicator"].nunique() == after["communicator"].nunique()


def test_counters_in_events_of_older_exports_stay_and_the_other_events_go(tmp_path: Path) -> None:
    counters = '{"DRAM Read Throughput [Throughput %]": "12", "SM Active": 7, "Host": "wonderland", "DRAM x": 1}'
    events = [counters, '{"message": "login of alice"}', "no JSON", "[" * 50_000, '{"DRAM Read Throughput": "alice"}']
    source = write_trace(tmp_path / "in.sqlite", "CREATE TABLE GENERIC_EVENTS (timestamp INT, typeId INT, data TEXT)")
    connection = sqlite3.connect(source)
    connection.executemany("INSERT INTO GENERIC_EVENTS VALUES (1, 2, ?)", [(event,) for event in events])
    connection.commit()
    connection.close()
    report = sanitize_trace(source, tmp_path / "out.sqlite")
    kept = rows(tmp_path / "out.sqlite", "SELECT timestamp, typeId, data FROM GENERIC_EVENTS")
    assert kept == [(1, 2, '{"DRAM Read Throughput [Throughput %]": "12", "SM Active": "7"}')]
    assert report.dropped_rows["GENERIC_EVENTS"] == 4


def test_variables_and_mangled_names_go_unless_names_are_kept(tmp_path: Path) -> None:
    table = "CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start INT, bytes INT, name TEXT)"
    row = "INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES (1, 2, 'acme_table')"
    source = write_trace(tmp_path / "in.sqlite", table, row)
    for name, options in (("out.sqlite", None), ("kept.sqlite", KEEP_NAMES)):
        sanitize_trace(source, tmp_path / name, options)
        assert (b"acme_table" in (tmp_path / name).read_bytes()) == (options is KEEP_NAMES)
        assert rows(tmp_path / name, "SELECT start, bytes FROM CUDA_GPU_MEMORY_USAGE_EVENTS") == [(1, 2)]


def test_that_something_was_lost_is_not_lost_and_whose_it_was_is(tmp_path: Path) -> None:
    failed = (
        "Error when processing events: Source ID=\n Error information:\n   ErrorText (100)=/home/alice/S.cpp(119): "
        "Throw in function for alice\nDynamic exception type: boost::wrapexcept<QuadDCommon::LogicException>\n"
        "[QuadDCommon::tag_message*] = Cannot find string for an exterior index\n"
    )
    source = write_trace(
        tmp_path / "in.sqlite",
        "ALTER TABLE DIAGNOSTIC_EVENT ADD COLUMN severity INT; UPDATE DIAGNOSTIC_EVENT SET severity = timestamp + 1;"
        f"INSERT INTO DIAGNOSTIC_EVENT VALUES (3, '{failed}', NULL, 2);",
    )
    sanitize_trace(source, tmp_path / "out.sqlite", KEEP_NAMES)
    assert rows(tmp_path / "out.sqlite", "SELECT text, severity FROM DIAGNOSTIC_EVENT ORDER BY timestamp") == [
        ("Profiling has started.", 1),
        ("Loaded CUPTI library: <path>", 2),
        ("An error of nsys was left out.", 3),
        (
            "Error when processing events: Source ID=\n"
            "Dynamic exception type: boost::wrapexcept<QuadDCommon::LogicException>\n"
            "Cannot find string for an exterior index",
            2,
        ),
    ]


def test_native_stacks_go_because_they_name_functions_and_files(tmp_path: Path) -> None:
    source = trace_with_stacks(tmp_path / "t.sqlite")
    report = sanitize_trace(source, tmp_path / "shared.sqlite")
    assert "CUDA_CALLCHAINS" in report.dropped_tables
    assert report.dropped_columns["CUPTI_ACTIVITY_KIND_RUNTIME"] == ["callchainId"]
    assert b"/w/train" not in (tmp_path / "shared.sqlite").read_bytes()
