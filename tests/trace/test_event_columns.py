"""Kernels and calls read in one compiled pass, against SQLite: the same columns from whatever a table holds."""

import random
import sqlite3
from contextlib import closing

import numpy as np
import pytest

from nsysprof.errors import NsysprofError
from nsysprof.native import load
from nsysprof.trace import event_columns
from nsysprof.trace.open import open_trace
from nsysprof.trace.table_readers.calls import read_calls, read_work
from nsysprof.trace.table_readers.gpus import read_gpus
from tests.trace.test_event_columns_tuple_encoder import MULTIPLIER

KERNELS = "start, end, deviceId, contextId, streamId, correlationId, globalPid, demangledName, shortName, graphNodeId"
CALLS = "start, end, eventClass, globalTid, correlationId, nameId, returnValue"
ODD = (None, "text", b"", 2.5, -(2**63), 2**63 - 1, 2**60, 2**50, 2**32, 2**31, 0, 1, -1)


@pytest.fixture
def compare(tmp_path, monkeypatch):
    """Return a function that reads a file by compiled code and by SQLite, and returns what both found."""
    read = []
    by_pages = event_columns.read_events

    def watch(*arguments, **named):
        read.append(by_pages(*arguments, **named))
        return read[-1]

    monkeypatch.setattr("nsysprof.trace.table_readers.calls.read_events", watch)

    def compare(kernels=(), calls=(), *, more="", page_size=512, is_read=True):
        path = tmp_path / "t.sqlite"
        path.unlink(missing_ok=True)
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            database.execute(f"PRAGMA page_size = {page_size}")
            database.execute("BEGIN")
            database.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
            for name, columns, rows in (("KERNEL", more + KERNELS, kernels), ("RUNTIME", CALLS, calls)):
                table = f"CUPTI_ACTIVITY_KIND_{name}"
                database.execute(f"CREATE TABLE {table} ({columns})")
                width = columns.count(",") + 1
                database.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * width)})", rows)
            database.execute("COMMIT")
        read.clear()
        found = []
        for compiled in (True, False):
            found.append(everything(path, compiled=compiled))
        assert [each is not None for each in read] == [True, is_read]
        assert found[0] == found[1]
        return found[0]

    return compare


def everything(path, *, compiled):
    """Return all columns of work and calls with their types, as lists."""
    with pytest.MonkeyPatch.context() as patch, open_trace(path, one_thread=True) as trace:
        patch.setattr(load, "is_wanted", lambda _unit: compiled)
        work, work_ids, recorded = read_work(trace, read_gpus(trace))
        calls, call_ids = read_calls(trace)
    columns = {f"work {name}": value for name, value in vars(work).items()} | {"ids": work_ids}
    if calls is not None:
        columns |= {f"calls {name}": value for name, value in vars(calls).items()} | {"call ids": call_ids}
    found = {name: (str(getattr(each, "dtype", "")), np.asarray(each).tolist()) for name, each in columns.items()}
    return {**found, "recorded": sorted(recorded)}


def usual(number):
    """Return a kernel and its call."""
    start = 1_000 * number
    kernel = (start + 300, start + 900, 0, 1, 7, number, 5 << 24, number % 9, number % 4, None)
    return kernel, (start, start + 100, 0, 5 << 24 | 7, number, number % 3, 0)


def odd(chance, row):
    """Return a row in which now and then a value is one that nsys never writes."""
    return tuple(chance.choice(ODD) if chance.random() < 0.05 else value for value in row)


@pytest.mark.parametrize("seed", range(6))
def test_whatever_the_rows_hold(compare, seed):
    chance = random.Random(seed)
    kernels, calls = zip(*(usual(number) for number in range(1, 2_000)), strict=True)
    calls = [(*call[:2], 67 if chance.random() < 0.05 else 0, *call[3:]) for call in calls]
    kernels = [(*kernel[:9], chance.choice((None, 0, number))) for number, kernel in enumerate(kernels)]
    if seed:
        kernels, calls = ([odd(chance, row) for row in rows] for rows in (kernels, calls))
    found = compare(kernels, calls, page_size=chance.choice((512, 4096, 65536)))
    assert (found["work dropped"][1] > 0) == bool(seed)
    assert 0 < len(found["work graph_node"][1]) < 2_000


def test_a_duration_of_more_than_four_seconds_widens_all(compare):
    kernels, calls = zip(*(usual(number) for number in range(1, 500)), strict=True)
    kernels = [(*each[:1], each[0] + 5_000_000_000, *each[2:]) if each[5] == 321 else each for each in kernels]
    found = compare(kernels, calls)
    assert found["work duration_ns"][0] == "int64"
    assert found["calls duration_ns"][0] == "uint32"
    assert found["work duration_ns"][1][319:322] == [600, 5_000_000_000, 600]


@pytest.mark.parametrize(
    ("most", "dtype"), [(257, "uint8"), (258, "int16"), (32_769, "int16"), (32_770, "int32"), (40_000, "int32")]
)
def test_codes_are_as_wide_as_their_number_needs(compare, most, dtype):
    calls = [(*usual(number)[1][:5], number, 0) for number in range(1, most)]
    found = compare(calls=calls, page_size=4096)
    assert found["calls variant"] == (dtype, list(range(most - 1)))


def test_names_that_were_made_to_collide_are_read_in_batches(compare):
    """The thread of each call undoes what the hash made of its name."""
    calls = []
    for number in range(1, 3_000):
        mixed = number * MULTIPLIER % 2**64
        thread = np.uint64(mixed ^ mixed >> 32).astype(np.int64)
        calls.append((*usual(number)[1][:3], int(thread), number, number, 0))
    assert compare(calls=calls, is_read=False)["calls variant"][1] == list(range(2_999))


def test_headers_of_any_length(compare):
    """Those of more than 64 bytes are read anew in every row."""
    for columns in (55, 56, 57, 58, 90):
        more = "".join(f"c{number}, " for number in range(columns))
        kernels = [(*[None] * columns, *usual(number)[0]) for number in range(1, 300)]
        assert len(compare(kernels, more=more, page_size=4096)["work start_ns"][1]) == 299


def test_an_empty_table(compare):
    assert compare()["recorded"] == []


def test_no_byte_of_a_page_can_mislead_it(compare, tmp_path):
    """What is read of a damaged table is what SQLite reads, or the table is left to SQLite."""
    compare(*zip(*(usual(number) for number in range(1, 400)), strict=True))
    path = tmp_path / "t.sqlite"
    content, chance = path.read_bytes(), random.Random(5)
    compared = 0
    for _ in range(150):
        broken = bytearray(content)
        for _ in range(chance.choice((1, 1, 8))):
            broken[chance.randrange(512 * 4, len(broken))] = chance.randrange(256)
        path.write_bytes(broken)
        try:
            expected = tuples(everything(path, compiled=False))
        except NsysprofError:  # the schema is damaged
            continue
        assert tuples(everything(path, compiled=True)) == expected
        compared += 1
    assert compared > 100


def tuples(found):
    """Return the columns with the tuple of each row, not its code: a table that is given up leaves some behind."""
    for kind in ("work", "calls"):
        if f"{kind} variant" in found:
            rows = found.pop(f"{kind} variants")[1]
            found[f"{kind} variant"] = [rows[code] for code in found[f"{kind} variant"][1]]
    return found
