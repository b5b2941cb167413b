"""Render reports as JSON, findings as SARIF, and the results of a gate as JUnit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

import pandas as pd
from msgspec import json

from nsysprof.files.plain_file import VERSION, json_value
from nsysprof.report.document import (
    Bars,
    Chart,
    Code,
    Figure,
    Gate,
    Lines,
    Notes,
    Paragraph,
    Part,
    Ranking,
    Report,
    Section,
    StackedBar,
    Table,
    clean,
    list_parts,
)
from nsysprof.report.formats.cell_text import cell_json
from nsysprof.results.allocator_memory import MemoryFinding
from nsysprof.results.checks import Outcome
from nsysprof.results.findings import CODES, MEMORY_CODES, Finding, Findings

_RULES = (*CODES, *MEMORY_CODES)
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
SCHEMA = "https://www.speedscope.app/file-format-schema.json"
# What a profile weighs: its name, the column of layers.csv, and the unit as speedscope names it.
_PROFILES = (
    ("time of kernels", "kernel_total_ns", "nanoseconds"),
    ("time of the host", "wall_ns", "nanoseconds"),
    ("FLOP", "flops", "none"),
)
# A number belongs to the list before it: `layers.7` is one frame.
_PARTS = re.compile(r"[^.]+(?:\.\d+(?=\.|$))*")


def report_json(report: Report) -> dict[str, Any]:
    """Return the report with every value in its base unit (ns, bytes). Unknown is null, with its reason if known."""
    return {"title": report.title, "sections": [_section_json(section) for section in report.sections]}


def _section_json(section: Section) -> dict[str, Any]:
    parts = [part_json(part) for part in section.parts if not isinstance(part, Chart)]
    return {"title": section.title, "parts": parts}


def part_json(part: Part) -> dict[str, Any]:
    """Return one part; "kind" says which kind it is."""
    match part:
        case Table():
            data = _table_json(part)
        case Lines():
            data = {"lines": list(part.texts), "is_verdict": part.is_verdict}
        case Figure():
            data = {"file": part.file, "alt": part.alt}
        case Notes():
            data = {"notes": json_value(part.notes)}
        case Ranking():
            data = _ranking_json(part)
        case Gate():
            data = {"results": [asdict(result) for result in part.results]}
        case StackedBar():
            parts = [{"label": segment.label, "value": segment.value} for segment in part.segments]
            data = {"title": part.title, "unit": part.unit, "segments": parts}
        case Bars():
            marks = {str(at): word for at, word in part.marks.items()}
            data = {"title": part.title, "unit": part.unit, "usual": part.usual, "marks": marks}
            data |= {"labels": list(part.labels), "values": list(part.values)}
        case Paragraph() | Code():
            data = {"text": part.text}
        case Chart():
            data = {}
    return {"kind": type(part).__name__.lower(), **data}


def _table_json(table: Table) -> dict[str, Any]:
    titles = [column.title for column in table.columns]
    data: dict[str, Any] = {
        "title": table.title,
        "columns": [{"title": column.title, "unit": column.unit} for column in table.columns],
        "rows": [dict(zip(titles, map(cell_json, row), strict=True)) for row in table.rows],
        "row_count": table.row_count,
        "source": table.source,
    }
    if table.marks:
        data["marks"] = {str(number): word for number, word in table.marks.items()}
    if table.depths:
        data["depths"] = list(table.depths)
    return data


def _ranking_json(part: Ranking) -> dict[str, Any]:
    items = [
        {
            "code": item.code,
            "where": item.where,
            "amount": cell_json(item.amount),
            "text": item.text,
            "next_step": item.next_step,
        }
        for item in part.items
    ]
    return {"amount": part.amount_title, "unit": part.amount_unit, "items": items}


def render_sarif(
    findings: Findings | None, artifact: str, unknown_because: str = "", of_memory: Sequence[MemoryFinding] = ()
) -> dict[str, Any]:
    """Return a SARIF log with one result for each finding.

    artifact: the trace's file name.
    unknown_because: why findings are unknown, where they are.
    of_memory: the findings about torch's memory.
    """
    rules = [{"id": code} for code in _RULES]
    results = [] if findings is None else [_result(finding, artifact) for finding in findings.items]
    results += [_memory_result(finding, artifact) for finding in of_memory]
    driver = {"name": "nsysprof", "version": VERSION, "rules": rules}
    run: dict[str, Any] = {"tool": {"driver": driver}, "results": results}
    if findings is None:
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


def render_junit(report: Report) -> str:
    """Return the gate's result: a regression is a failure, an inconclusive rule an error, any other rule has passed."""
    counts = dict.fromkeys(Outcome, 0)
    suite = ElementTree.Element("testsuite", {"name": "nsysprof compare"})
    results = [result for part in list_parts(report) if isinstance(part, Gate) for result in part.results]
    for result in results:
        if not result.findings:
            ElementTree.SubElement(suite, "testcase", {"classname": "nsysprof.compare", "name": _xml(result.rule)})
            counts[Outcome.PASS] += 1
        for finding in result.findings:
            name = _xml(f"{result.rule} {finding.where}".strip())
            case = ElementTree.SubElement(suite, "testcase", {"classname": "nsysprof.compare", "name": name})
            tag = "failure" if finding.outcome is Outcome.REGRESSION else "error"
            fault = ElementTree.SubElement(case, tag, {"message": _xml(finding.text), "type": finding.outcome.value})
            fault.text = _xml(f"{finding.text} -> {finding.next_step}" if finding.next_step else finding.text)
            counts[finding.outcome] += 1
    verdicts = [
        line for part in list_parts(report) if isinstance(part, Lines) and part.is_verdict for line in part.texts
    ]
    suite.set("tests", str(sum(counts.values())))
    suite.set("failures", str(counts[Outcome.REGRESSION]))
    suite.set("errors", str(counts[Outcome.INCONCLUSIVE]))
    ElementTree.SubElement(suite, "system-out").text = _xml(" ".join(verdicts))
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(suites, encoding="unicode")}\n'


def _xml(text: str) -> str:
    """Return a text without the characters that XML 1.0 cannot contain."""
    return clean(text, 1000).translate({0xFFFE: 0xFFFD, 0xFFFF: 0xFFFD})


def layers_flame_graph(layers: pd.DataFrame) -> bytes:
    """Return the flame graphs of layers as layers.csv has them: of kernels, of the host, and of FLOP where known.

    Each graph has the pass below, and above it the modules from the outermost list to the innermost one.
    """
    frames: dict[str, int] = {}
    stacks = [
        [frames.setdefault(name, len(frames)) for name in _stack(layer, way)]
        for layer, way in zip(layers["layer"].tolist(), layers["pass"].tolist(), strict=True)
    ]
    profiles = [
        _profile(name, unit, stacks, layers[column].fillna(0).astype("int64").tolist())
        for name, column, unit in _PROFILES
        if layers[column].notna().any()
    ]
    return json.encode({
        "$schema": SCHEMA, "exporter": "nsysprof", "name": "layers", "activeProfileIndex": 0,
        "shared": {"frames": [{"name": name} for name in frames]}, "profiles": profiles,
    })  # fmt: skip


def _stack(layer: object, way: object) -> list[str]:
    parts = _PARTS.findall(layer) if isinstance(layer, str) else []
    return [str(way) if isinstance(way, str) else "(no pass)", *(parts or ["(no module)"])]


def _profile(name: str, unit: str, stacks: list[list[int]], weights: list[int]) -> dict[str, Any]:
    order = sorted((place for place, weight in enumerate(weights) if weight > 0), key=lambda place: stacks[place])
    return {
        "type": "sampled", "name": name, "unit": unit, "startValue": 0, "endValue": sum(weights[at] for at in order),
        "samples": [stacks[at] for at in order], "weights": [weights[at] for at in order],
    }  # fmt: skip
