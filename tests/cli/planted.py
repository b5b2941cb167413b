"""Captures made from the real one in traces/h200-sdpa, with a change planted in each."""

import json
import lzma
import shutil
import sqlite3
from pathlib import Path

import numpy as np

from tests.conftest import REPOSITORY

REAL = REPOSITORY / "traces" / "h200-sdpa"
_WORK = "CUPTI_ACTIVITY_KIND_KERNEL"


def make_capture(folder: Path, *, seed=None, slower=1.0, environment=None, change=None, manifest=None) -> Path:
    """Return a changed copy of the capture.

    seed: for samples that are drawn anew from the real ones, with the noise of a process; slower: a factor for them.
    change: a function that changes the trace through its connection.
    environment, manifest: facts that are replaced.
    """
    folder.mkdir(parents=True)
    told = json.loads((REAL / "manifest.json").read_text())
    told["environment"] |= environment or {}
    (folder / "manifest.json").write_text(json.dumps({**told, **(manifest or {})}))
    shutil.copy(REAL / "results.csv", folder)
    samples = json.loads((REAL / "samples.json").read_text())
    for each in samples["samples"].values():
        each["values"] = _draw(each["values"], seed, slower)
    (folder / "samples.json").write_text(json.dumps(samples))
    trace = folder / "nsys.sqlite"
    trace.write_bytes(lzma.decompress((REAL / "nsys.sqlite.xz").read_bytes()))
    if change is not None:
        with sqlite3.connect(trace) as database:
            change(database)
        database.close()
    return folder


def _draw(values, seed, slower):
    if seed is None:
        return [int(value * slower) for value in values]
    rng = np.random.default_rng(abs(hash((seed, len(values), values[0]))) % 2**32)
    calm = np.sort(values)[: len(values) * 3 // 4]  # without the slow start of a process
    process = float(np.exp(rng.normal(0, 0.004)))
    return [int(value) for value in rng.choice(calm, len(values)) * process * slower]


def window(database, name):
    """Start and end of a range."""
    return database.execute(
        "SELECT min(start), max(end) FROM NVTX_EVENTS LEFT JOIN StringIds ON textId = id "
        "WHERE coalesce(text, value) = ?",
        (name,),
    ).fetchone()


def calls_in(database, name):
    """rowids of the range's kernels and of their launches."""
    start, end = window(database, name)
    return database.execute(
        f"SELECT k.rowid, r.rowid FROM {_WORK} k JOIN CUPTI_ACTIVITY_KIND_RUNTIME r "
        "ON k.correlationId = r.correlationId AND r.start BETWEEN ? AND ? ORDER BY r.start",
        (start, end),
    ).fetchall()


def one_more_launch(database, name="RUN::flash::S4096"):
    """Each of the range's ten calls launches its kernel twice."""
    largest = database.execute("SELECT max(correlationId) FROM CUPTI_ACTIVITY_KIND_RUNTIME").fetchone()[0]
    for number, (kernel, call) in enumerate(calls_in(database, name)[:10], start=1):
        for table, row in ((_WORK, kernel), ("CUPTI_ACTIVITY_KIND_RUNTIME", call)):
            columns = [each[1] for each in database.execute(f"PRAGMA table_info({table})")]
            values = dict(
                zip(columns, database.execute(f"SELECT * FROM {table} WHERE rowid = ?", (row,)).fetchone(), strict=True)
            )
            values["correlationId"] = largest + number
            if table == _WORK:  # 500 ns in the gap after the kernel
                values["start"], values["end"] = values["end"] + 50, values["end"] + 550
            marks = ", ".join("?" * len(columns))
            database.execute(f"INSERT INTO {table} VALUES ({marks})", [values[column] for column in columns])


def slower_kernels(database):
    """Every kernel takes 5 % longer."""
    database.execute(f"UPDATE {_WORK} SET end = end + (end - start) / 20")


def another_backend(database, name="RUN::auto::S4096"):
    """Give the range the kernels of flash."""
    flash = database.execute(
        "SELECT id FROM StringIds WHERE value LIKE '%flash_fwd_kernel%' AND value LIKE '%(%' LIMIT 1"
    ).fetchone()[0]
    for kernel, _ in calls_in(database, name):
        database.execute(f"UPDATE {_WORK} SET demangledName = ?, shortName = ? WHERE rowid = ?", (flash, flash, kernel))


def more_memory(database):
    """Every allocation of the device is 10 % larger."""
    database.execute("UPDATE CUDA_GPU_MEMORY_USAGE_EVENTS SET bytes = bytes + bytes / 10")
