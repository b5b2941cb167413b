"""Read the extended payloads of NCCL's NVTX ranges: sizes, communicators and ranks of its calls."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pandas as pd

from nsysprof.trace.columns import read_rows, table_sql
from nsysprof.trace.open import Trace, quote
from nsysprof.trace.schema import NULL

# The fields of NCCL's payloads, and our names for them.
FIELDS = {
    "Message size [bytes]": "message_bytes",
    "NCCL communicator ID": "communicator",
    "No. of ranks": "ranks",
    "Rank": "rank",
    "Peer rank": "peer",
}
ENTRY_COLUMNS = ("domainId", "schemaId", "name", "type", "offset")
COLUMNS = ("start_ns", "global_tid", *FIELDS.values())
# The codes of integers in module struct, by NVTX_PAYLOAD_ENTRY_TYPE_*; size_t has eight bytes.
_TYPES = {
    5: "i", 6: "I", 7: "q", 8: "Q", 9: "q", 10: "Q", 11: "b", 12: "B", 13: "h", 14: "H", 15: "i", 16: "I", 17: "q",
    18: "Q", 22: "Q",
}  # fmt: skip
# The header of a payload has its domain, its schema, its size, and the position of its end.
_HEADER = struct.Struct("<IIIIQQ")
_LARGEST_BYTES = 4096
_MOST_ROWS = 5_000_000
_SIGN = 1 << 63


@dataclass(frozen=True)
class Field:
    """A field of a payload: our name, its offset (bytes), and its format."""

    name: str
    offset: int
    type: struct.Struct


Schemas = dict[tuple[int, int], list[Field]]


def read_collective_payloads(trace: Trace) -> pd.DataFrame | None:
    """Return one row for each NVTX range with a payload of NCCL, with NULL for what it does not say.

    None: this trace has no such payloads.
    """
    schemas = fields_of(read_rows(trace, "NVTX_PAYLOAD_SCHEMA_ENTRIES", ENTRY_COLUMNS))
    table = trace.find("NVTX_EVENTS")
    present = {name.lower(): name for name in trace.columns[table]} if table else {}
    if not schemas or table is None or not {"start", "globaltid", "binarydata"} <= present.keys():
        return None
    rows = [row for row in _decoded(trace, table, present, schemas) if row is not None]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype("int64") if rows else None


def fields_of(rows: Iterable[tuple[object, ...]]) -> Schemas:
    """Return the fields of the payloads that are known here, by domain and schema.

    rows: domainId, schemaId, name, type and offset of NVTX_PAYLOAD_SCHEMA_ENTRIES; every process has its own.
    """
    fields_by_schema: dict[tuple[int, int], dict[str, Field]] = {}
    for domain, schema, name, kind, offset in rows:
        known = FIELDS.get(name) if isinstance(name, str) else None
        code = _TYPES.get(kind) if isinstance(kind, int) else None
        if known and code and isinstance(domain, int) and isinstance(schema, int):
            at = offset if isinstance(offset, int) else 0
            fields_by_schema.setdefault((domain, schema), {})[known] = Field(known, at, struct.Struct(f"<{code}"))
    return {key: list(fields.values()) for key, fields in fields_by_schema.items()}


def _decoded(trace: Trace, table: str, present: dict[str, str], schemas: Schemas) -> Iterator[tuple[int, ...] | None]:
    start, tid, data = (quote(present[name]) for name in ("start", "globaltid", "binarydata"))
    query = (
        f"SELECT {start}, {tid}, {data} FROM {table_sql(trace, table)} "
        f"WHERE {data} IS NOT NULL AND length({data}) <= {2 * _LARGEST_BYTES:d} LIMIT {_MOST_ROWS:d}"
    )
    try:
        with trace.lock:
            rows = trace.connection.execute(query).fetchall()
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        trace.explain(error)  # read_ranges says that the table is damaged
        return
    for at, thread, payload in rows:
        if isinstance(at, int) and isinstance(thread, int):
            fields = decode(_as_bytes(payload), schemas)
            yield None if not fields else (at, thread, *(fields.get(name, NULL) for name in FIELDS.values()))


def _as_bytes(payload: object) -> bytes:
    """Return a payload as bytes; some exports write it as text in hexadecimal."""
    if isinstance(payload, bytes):
        return payload
    try:
        return bytes.fromhex(payload) if isinstance(payload, str) else b""
    except ValueError:
        return b""


def decode(payload: bytes, schemas: Schemas) -> dict[str, int]:
    """Return the known fields of a payload; none where it belongs to another library or is damaged."""
    if len(payload) < _HEADER.size:
        return {}
    domain, _, schema, _, size, _ = _HEADER.unpack_from(payload)
    end = _HEADER.size + size
    if end > len(payload):
        return {}
    values = {}
    for field in schemas.get((domain, schema), ()):
        at = _HEADER.size + field.offset
        if field.offset >= 0 and at + field.type.size <= end:
            (value,) = field.type.unpack_from(payload, at)
            values[field.name] = value - 2 * _SIGN if value >= _SIGN else value
    return values


def keep_known(payload: bytes, schemas: Schemas, communicators: dict[int, int]) -> bytes | None:
    """Return the payload with only the fields that are known here; None where it has none of them.

    communicators: the numbers that replace the ids of communicators; new ids are added.
    """
    fields = decode(payload, schemas)
    if not fields:
        return None
    if "communicator" in fields:
        fields["communicator"] = communicators.setdefault(fields["communicator"], len(communicators) + 1)
    domain, _, schema, _, size, end = _HEADER.unpack_from(payload)
    kept = bytearray(min(size, _LARGEST_BYTES))
    for field in schemas[domain, schema]:
        if field.name in fields and field.offset + field.type.size <= len(kept):
            value = fields[field.name]
            field.type.pack_into(kept, field.offset, value if value >= 0 or field.type.format[-1].islower() else 0)
    return _HEADER.pack(domain, 0, schema, 0, len(kept), end) + bytes(kept)
