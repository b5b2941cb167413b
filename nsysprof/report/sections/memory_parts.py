"""Compose the parts of a report on a snapshot of torch's allocator: the peak, its owners, and the devices."""

from __future__ import annotations

from nsysprof.report.document import (
    Cell,
    Column,
    Item,
    Lines,
    Part,
    Ranking,
    Table,
    Unit,
    make_table,
)
from nsysprof.results.allocator_memory import AllocatorMemory, DeviceUse, MemoryFinding
from nsysprof.units import format_bytes


def memory_parts(memory: AllocatorMemory) -> list[Part]:
    """Return the verdict, the findings, and the tables of owners and devices."""
    most = next((use for use in memory.devices if use.device_id == memory.device_id), None)
    if most is None:
        return [Lines(("Nothing was allocated on a GPU.",), is_verdict=True)]
    parts: list[Part] = [Lines((_peak_text(most),), is_verdict=True)]
    if memory.findings:
        items = tuple(_item(finding, len(memory.devices) > 1) for finding in memory.findings)
        parts.append(Ranking(items, "could be given back", Unit.BYTES, whole_items=len(items)))
    return [*parts, owner_table(memory), _device_table(memory)]


def owner_table(memory: AllocatorMemory) -> Table:
    """Return the owners of the peak, the largest first."""
    has_ranges = bool(memory.owners["range"].notna().any())
    columns = [Column("owner", Unit.NAME), Column("at the peak", Unit.BYTES), Column("share", Unit.SHARE)]
    columns += [Column("range", Unit.NAME, drop=1)] if has_ranges else []
    rows = [
        (str(row["owner"]), int(row["peak_bytes"]), float(row["share_pct"]), *([row["range"]] if has_ranges else []))
        for row in memory.owners.to_dict("records")
    ]
    return make_table("Owners of the peak", columns, rows, source="memory.csv")


def _peak_text(use: DeviceUse) -> str:
    before = (
        f", {format_bytes(use.before_bytes)} of it from before the first event of the snapshot"
        if use.before_bytes
        else ""
    )
    return (
        f"At the peak {format_bytes(use.peak_bytes)} were allocated on device {use.device_id}{before}; the allocator "
        f"had up to {format_bytes(use.reserved_peak_bytes)} from the driver."
    )


def _item(finding: MemoryFinding, has_devices: bool) -> Item:
    where = f"device {finding.device_id}" if has_devices else ""
    return Item(finding.code, where, Cell(finding.bytes), finding.text, finding.next_step)


def _device_table(memory: AllocatorMemory) -> Table:
    columns = (
        Column("device"), Column("peak", Unit.BYTES), Column("from before", Unit.BYTES),
        Column("at the end", Unit.BYTES), Column("reserved, at most", Unit.BYTES), Column("used of that", Unit.BYTES),
        Column("events", Unit.COUNT, drop=1),
    )  # fmt: skip
    rows = [
        (
            str(use.device_id), use.peak_bytes, use.before_bytes, use.end_bytes, use.reserved_peak_bytes,
            use.used_of_reserved_bytes, use.event_count,
        )
        for use in memory.devices
    ]  # fmt: skip
    return make_table("Devices", columns, rows, terminal_rows=8)
