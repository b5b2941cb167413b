"""Read what NCCL says of its calls in the extended payloads of its NVTX ranges: sizes, communicators and ranks."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from nsysprof.trace.columns import read_rows, table_sql
from nsysprof.trace.open import Trace, quote
from nsysprof.trace.schema import NULL

# Fields of NCCL's payloads by our names.
_FIELDS = {
    "Message size [bytes]": "message_bytes",
    "NCCL communicator ID": "communicator",
    "No. of ranks": "ranks",
    "Rank": "rank",
    "Peer rank": "peer",
}
COLUMNS = ("start_ns", "global_tid", *_FIELDS.values())
# The codes of integers in module struct, by NVTX_PAYLOAD_ENTRY_TYPE_*; size_t has eight bytes.
_TYPES = {
    5: "i", 6: "I", 7: "q", 8: "Q", 9: "q", 10: "Q", 11: "b", 12: "B", 13: "h", 14: "H", 15: "i", 16: "I", 17: "q",
    18: "Q", 22: "Q",
}  # fmt: skip
# Before the payload stand its domain, its schema, its size and where it ends.
_HEADER = struct.Struct("<IIIIQQ")
_LARGEST_BYTES = 4096
_MOST_ROWS = 5_000_000
_SIGN = 1 << 63


@dataclass(frozen=True)
class _Field:
    name: str
    offset: int
    type: struct.Struct


_Schemas = dict[tuple[int, int], list[_Field]]


def read_collective_payloads(trace: Trace) -> pd.DataFrame | None:
    """Return one row for each range of NVTX with a payload of NCCL's, NULL for what it does not say.

    None: this trace has no such payloads.
    """
    schemas = _read_schemas(trace)
    table = trace.find("NVTX_EVENTS")
    present = {name.lower(): name for name in trace.columns[table]} if table else {}
    if not schemas or table is None or not {"start", "globaltid", "binarydata"} <= present.keys():
        return None
    rows = [row for row in _decoded(trace, table, present, schemas) if row is not None]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype("int64") if rows else None


def _read_schemas(trace: Trace) -> _Schemas:
    """Return the fields of the payloads that are known here, by domain and schema."""
    found: _Schemas = {}
    seen = set()  # every process registers its own
    names = ("domainId", "schemaId", "name", "type", "offset")
    for domain, schema, name, kind, offset in read_rows(trace, "NVTX_PAYLOAD_SCHEMA_ENTRIES", names):
        known = _FIELDS.get(name) if isinstance(name, str) else None
        code = _TYPES.get(kind) if isinstance(kind, int) else None
        if known and code and isinstance(domain, int) and isinstance(schema, int):
            at = offset if isinstance(offset, int) else 0
            if (domain, schema, known) in seen:
                continue
            seen.add((domain, schema, known))
            found.setdefault((domain, schema), []).append(_Field(known, at, struct.Struct(f"<{code}")))
    return found


def _decoded(trace: Trace, table: str, present: dict[str, str], schemas: _Schemas) -> Iterator[tuple[int, ...] | None]:
    start, tid, data = (quote(present[name]) for name in ("start", "globaltid", "binarydata"))
    query = (
        f"SELECT {start}, {tid}, {data} FROM {table_sql(trace, table)} "
        f"WHERE {data} IS NOT NULL AND length({data}) <= {2 * _LARGEST_BYTES:d} LIMIT {_MOST_ROWS:d}"
    )
    try:
        with trace.lock:
            found = trace.connection.execute(query).fetchall()
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        trace.explain(error)  # read_ranges says that the table is damaged
        return
    for at, thread, payload in found:
        if isinstance(at, int) and isinstance(thread, int):
            fields = _decode(_as_bytes(payload), schemas)
            yield None if not fields else (at, thread, *(fields.get(name, NULL) for name in _FIELDS.values()))


def _as_bytes(payload: object) -> bytes:
    """Return a payload as bytes; some exports write it as text in hexadecimal."""
    if isinstance(payload, bytes):
        return payload
    try:
        return bytes.fromhex(payload) if isinstance(payload, str) else b""
    except ValueError:
        return b""


def _decode(payload: bytes, schemas: _Schemas) -> dict[str, int]:
    """Return the known fields of a payload; none where it is of another library, or damaged."""
    if len(payload) < _HEADER.size:
        return {}
    domain, _, schema, _, size, _ = _HEADER.unpack_from(payload)
    end = _HEADER.size + size
    if end > len(payload):
        return {}
    found = {}
    for field in schemas.get((domain, schema), ()):
        at = _HEADER.size + field.offset
        if field.offset >= 0 and at + field.type.size <= end:
            (value,) = field.type.unpack_from(payload, at)
            found[field.name] = value - 2 * _SIGN if value >= _SIGN else value
    return found
