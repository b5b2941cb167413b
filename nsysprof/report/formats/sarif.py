"""Render findings as SARIF 2.1.0, which code hosts and editors show beside the code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from nsysprof.files.written_by import VERSION
from nsysprof.results.allocator_memory import MemoryFinding
from nsysprof.results.findings import CODES, MEMORY_CODES, Finding, Findings

_RULES = (*CODES, *MEMORY_CODES)
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def render_sarif(
    found: Findings | None, artifact: str, unknown_because: str = "", of_memory: Sequence[MemoryFinding] = ()
) -> dict[str, Any]:
    """Return a SARIF log with one result for each finding.

    artifact: the trace's file name.
    unknown_because: why findings are unknown, where they are.
    of_memory: the findings about torch's memory.
    """
    rules = [{"id": code} for code in _RULES]
    results = [] if found is None else [_result(each, artifact) for each in found.items]
    results += [_memory_result(each, artifact) for each in of_memory]
    driver = {"name": "nsysprof", "version": VERSION, "rules": rules}
    run: dict[str, Any] = {"tool": {"driver": driver}, "results": results}
    if found is None:
        run["invocations"] = [
            {"executionSuccessful": False, "exitCodeDescription": f"findings are unknown, because {unknown_because}"}
        ]
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(finding: Finding, artifact: str) -> dict[str, Any]:
    path, _, line = finding.location.rpartition(":")
    is_line = bool(path) and line.isascii() and line.isdigit() and int(line) > 0
    place: dict[str, Any] = {"artifactLocation": {"uri": _uri(path if is_line else artifact)}}
    if is_line:
        place["region"] = {"startLine": int(line)}
    location: dict[str, Any] = {"physicalLocation": place}
    native = "" if is_line else finding.location
    names = [{"name": name, "kind": "function"} for name in (finding.range, native) if name]
    if names:
        location["logicalLocations"] = names
    return {
        "ruleId": finding.code,
        "ruleIndex": _RULES.index(finding.code),
        "level": "warning",
        "message": {"text": f"{finding.text} {finding.next_step}".strip()},
        "locations": [location],
        "rank": float(max(0, 101 - finding.rank)),
        "properties": {
            "per": finding.per, "count": finding.count, "saving_ns": finding.saving_ns,
            "saving_low_ns": finding.saving_low_ns, "saving_high_ns": finding.saving_high_ns,
            "location_share_pct": finding.location_share_pct,
        },
    }  # fmt: skip


def _uri(path: str) -> str:
    """Return a path as a reference in which no character has a meaning of its own."""
    return quote(path.replace("\\", "/"), errors="replace")


def _memory_result(finding: MemoryFinding, artifact: str) -> dict[str, Any]:
    return {
        "ruleId": finding.code,
        "ruleIndex": _RULES.index(finding.code),
        "level": "warning",
        "message": {"text": f"{finding.text} {finding.next_step}".strip()},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": _uri(artifact)}}}],
        "properties": {"device_id": finding.device_id, "bytes": finding.bytes, "share_pct": finding.share_pct},
    }
