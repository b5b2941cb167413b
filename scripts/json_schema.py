"""Make the JSON Schemas of what `--json` prints, from the registry of columns and the types of the results."""

from __future__ import annotations

from typing import Any

import msgspec

from nsysprof.notes import Note
from nsysprof.results import allocator_memory, comparison
from nsysprof.results.analysis import Coverage, Device, ReadPart, Totals, TraceInfo
from nsysprof.results.checks import GateResult
from nsysprof.results.column_registry import analysis_columns, case_columns, rank_columns
from nsysprof.results.column_registry.column import Dtype, FileColumn, TableFile, files_of
from nsysprof.results.findings import DeviceIdle, Finding, Findings, WhatIf
from nsysprof.results.latency_history import CaseHistory, HistoryPoint
from nsysprof.results.policy_use import PolicyUse
from nsysprof.results.program_runs import Optimization, ProgramComparison, ProgramGain
from nsysprof.results.rank_results import ClockFit, RankRow

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_JSON_TYPES = {Dtype.TEXT: "string", Dtype.INTEGER: "integer", Dtype.NUMBER: "number", Dtype.FLAG: "boolean"}
Schema = dict[str, Any]
_TEXT: Schema = {"type": "string"}
_TEXT_OR_NULL: Schema = {"type": ["string", "null"]}
_WHOLE: Schema = {"type": "integer"}
_NUMBER_OR_NULL: Schema = {"type": ["number", "null"]}
_FLAG: Schema = {"type": "boolean"}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_ANY_OBJECT: Schema = {"type": "object"}


def command_schemas() -> dict[str, Schema]:
    """Return the schema of what each command prints with --json, by the name of its file without its suffix."""
    return {
        "analyze": _analyze(), "analyze-memory": _analyze_memory(), "analyze-ranks": _analyze_ranks(),
        "bench": _bench(), "bench-program": _bench_program(), "bench-sides": _bench_sides(), "bundle": _bundle(),
        "capture": _capture(), "compare": _compare(), "compare-memory": _compare_memory(),
        "doctor": _doctor(), "explain": _explain(), "export": _export(), "help": _help(),
        "history": _history(), "mcp": _mcp(),
        "optimize": _optimize(), "record": _record(), "run": _run(), "tune": _tune(), "view": _view(),
        "whatif": _whatif(),
    }  # fmt: skip


def rows_schema(file: TableFile) -> Schema:
    """Return the schema of a table as a list of rows; unknown is null."""
    return {
        "type": "array",
        "description": f"{file.row} The columns of {file.name}.",
        "items": {
            "type": "object",
            "properties": {column.name: _cell(column) for column in file.columns},
            "required": list(file.names),
            "additionalProperties": False,
        },
    }


def _cell(column: FileColumn) -> Schema:
    kind = _JSON_TYPES[column.dtype]
    unit = f" Unit: {column.unit}." if column.unit else ""
    return {"type": [kind, "null"] if column.nullable else kind, "description": column.doc + unit}


def _of(title: str, properties: Schema, types: tuple[type, ...] = (), *, optional: tuple[str, ...] = ()) -> Schema:
    """Return the schema of what a command prints, which has the version of its format first.

    types: the types that its properties refer to by name.
    """
    fields = {"format_version": _WHOLE, **properties}
    schema: Schema = {
        "$schema": _DRAFT,
        "title": title,
        "type": "object",
        "properties": fields,
        "required": [name for name in fields if name not in optional],
    }
    if types:
        _, components = msgspec.json.schema_components(types, ref_template="#/$defs/{name}")
        # Docstrings are for readers of the code.
        kept = {
            name: {k: v for k, v in component.items() if k != "description"} for name, component in components.items()
        }
        schema["$defs"] = dict(sorted(kept.items()))
    return schema


def _ref(type_: type) -> Schema:
    return {"$ref": f"#/$defs/{type_.__name__}"}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _object(**properties: Any) -> Schema:
    """Return the schema of an object that always has these properties."""
    return {"type": "object", "properties": properties, "required": list(properties)}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _nullable_table(file: TableFile, *, is_nullable: bool) -> Schema:
    return _or_null(rows_schema(file)) if is_nullable else rows_schema(file)


def _analyze() -> Schema:
    of_allocator = (allocator_memory.MemoryFinding, allocator_memory.DeviceUse)
    types = (TraceInfo, ReadPart, Device, Coverage, Totals, Note, Finding, Findings, DeviceIdle, *of_allocator)
    times = {name: {"type": ["integer", "null"]} for name in ("gpu_span_ns", "gpu_busy_ns", "gpu_idle_ns")}
    device: Schema = {"allOf": [_ref(Device), {"properties": times, "required": list(times)}]}
    findings = _or_null(_list(_ref(Finding)))
    reasons = {"type": "object", "additionalProperties": _WHOLE}
    idle = _object(devices=_list(_ref(DeviceIdle)), unknown_reasons=reasons, causes=rows_schema(analysis_columns.IDLE))
    of_memory = _or_null(_list(_ref(allocator_memory.MemoryFinding)))
    required: Schema = {
        "format_version": _WHOLE, "findings": findings, "memory_findings": of_memory, "idle": _or_null(idle),
    }  # fmt: skip
    causes: Schema = {
        "type": "object",
        "description": "The content of findings.json. memory_findings is null where torch's memory was not recorded.",
        "properties": {**required, "unknown_because": _TEXT},
        "required": list(required),
    }
    unknown = ("idle.csv", "idle_instances.csv", "steps.csv", "attention.csv", "memory.csv", "recording_cost.csv",
               "operators.csv", "os_calls.csv", "phases.csv")  # fmt: skip
    tables = {
        file.name.removesuffix(".csv"): _nullable_table(file, is_nullable=file.name in unknown)
        for file in (*files_of("analysis"), case_columns.CAPTURE_RESULTS)
    }
    of_step: dict[str, Schema] = {
        "step_flops": {"type": ["integer", "null"]}, "mfu_pct": {"type": ["number", "null"]},
        "peak_flops_per_s": {"type": ["number", "null"]}, "peak_source": {"type": ["string", "null"]},
        "mfu_unknown_because": {"type": ["string", "null"]}, "floor_source": {"type": ["string", "null"]},
    }  # fmt: skip
    properties = {
        "trace": _ref(TraceInfo), "part": _or_null(_ref(ReadPart)), "devices": _list(device),
        "coverage": _ref(Coverage), "totals": _ref(Totals), **of_step,
        "notes": _list(_ref(Note)), "causes": causes, **tables, "findings": findings,
        "allocator": _or_null(_allocator_use()), "folder": _TEXT,
    }  # fmt: skip
    schema = _of(
        "nsysprof analyze --json of one trace, and nsysprof demo --json", properties, types, optional=("results",)
    )
    # Where findings are known, findings.json says of which steps.
    of_steps = schema["$defs"]["Findings"]["properties"]
    causes["properties"] |= {name: field for name, field in of_steps.items() if name != "items"}
    return schema


def _allocator_use() -> Schema:
    return _object(
        snapshot=_object(path_name=_TEXT, sha256=_TEXT, bytes=_WHOLE),
        devices=_list(_ref(allocator_memory.DeviceUse)), device_id={"type": ["integer", "null"]},
        out_of_memory=_list(_ANY_OBJECT),
    )  # fmt: skip


def _help() -> Schema:
    topics = _list(_object(name=_TEXT, title=_TEXT))
    return _of("nsysprof help --json", {"topic": _TEXT_OR_NULL, "text": _TEXT_OR_NULL, "topics": topics})


def _mcp() -> Schema:
    tools = _list(_object(name=_TEXT, description=_TEXT, input_schema=_ANY_OBJECT))
    return _of("nsysprof mcp --json", {"instructions": _TEXT, "tools": tools})


def _record() -> Schema:
    whole_or_null: Schema = {"type": ["integer", "null"]}
    properties = {
        "folder": _TEXT, "duration_ns": whole_or_null, "steps": whole_or_null, "start_ns": whole_or_null,
        "stop_ns": whole_or_null, "survived": {"type": ["boolean", "null"]}, "latency": _or_null(_ANY_OBJECT),
        "processes": _list(_ANY_OBJECT), "notes": _list(_ref(Note)),
    }  # fmt: skip
    return _of("nsysprof record --json", properties, (Note,))


def _analyze_ranks() -> Schema:
    tables = (
        rank_columns.JOB_FINDINGS, rank_columns.COMMUNICATION,
        rank_columns.PER_RANK, rank_columns.RANGES_OVER_RANKS, rank_columns.KERNELS_OVER_RANKS,
        rank_columns.RANGE_KERNELS_OVER_RANKS, rank_columns.API_OVER_RANKS, rank_columns.MEMOPS_OVER_RANKS,
        rank_columns.RANK_RANGES, rank_columns.STRAGGLERS, rank_columns.ENERGY_OVER_RANKS, rank_columns.RANK_ENERGY,
    )  # fmt: skip
    properties = {
        **{file.name.removesuffix(".csv"): rows_schema(file) for file in tables},
        "nsysprof_version": _TEXT, "ranks_read": _WHOLE, "ranks_given": _WHOLE,
        "imbalance_pct": _NUMBER_OR_NULL, "straggler_evidence": _TEXT_OR_NULL,
        "pipeline_bubbles_ns": {"type": "object", "additionalProperties": _WHOLE},
        "outliers": {"type": "object", "additionalProperties": _TEXT}, "clocks": _list(_ref(ClockFit)),
        "ranks": _list(_ref(RankRow)), "engine": _ANY_OBJECT, "notes": _list(_ref(Note)), "folder": _TEXT,
    }  # fmt: skip
    return _of("nsysprof analyze --json, of many traces", properties, (ClockFit, RankRow, Note))


def _analyze_memory() -> Schema:
    properties = {
        **_allocator_use()["properties"], "memory": rows_schema(analysis_columns.MEMORY),
        "findings": _list(_ref(allocator_memory.MemoryFinding)), "notes": _list(_ref(Note)), "folder": _TEXT,
    }  # fmt: skip
    types = (allocator_memory.DeviceUse, allocator_memory.MemoryFinding, Note)
    return _of("nsysprof analyze --json, of a snapshot of torch's allocator", properties, types)


def _compare_memory() -> Schema:
    properties = {
        "baseline": _TEXT, "candidate": _TEXT, "baseline_peak_bytes": _WHOLE,
        "candidate_peak_bytes": _WHOLE, "changes": _list(_ref(allocator_memory.OwnerChange)), "folder": _TEXT_OR_NULL,
    }  # fmt: skip
    return _of("nsysprof compare --json, of two snapshots", properties, (allocator_memory.OwnerChange,))


def _bench() -> Schema:
    properties = {
        "folder": _TEXT, "seed": _WHOLE, "floor_pct": _NUMBER_OR_NULL, "cases": rows_schema(case_columns.BENCH_RESULTS),
        "self_check": _ANY_OBJECT, "notes": _list(_ref(Note)),
    }  # fmt: skip
    return _of("nsysprof bench --json", properties, (Note,), optional=("self_check",))


def _bundle() -> Schema:
    counts = {"type": "object", "additionalProperties": _WHOLE}
    properties = {
        "file": _TEXT_OR_NULL, "bytes": _WHOLE, "sha256": _TEXT, "members": _TEXTS, "names_replaced": counts,
        "left_out": _list({"type": "object", "properties": {"what": _TEXT, "why": _TEXT}}),
        "secrets_searched": _WHOLE, "texts_searched": _WHOLE, "markdown": _TEXT,
    }  # fmt: skip
    return _of("nsysprof bundle --json", properties)


def _capture() -> Schema:
    properties = {
        "folder": _TEXT, "cases": rows_schema(case_columns.CAPTURE_RESULTS), "program": _ANY_OBJECT,
        "ranks": {}, "complete": _FLAG, "notes": _list(_ref(Note)),
    }  # fmt: skip
    of_grid_or_program = ("cases", "program", "ranks", "complete")
    return _of("nsysprof capture --json, of a grid or of a program", properties, (Note,), optional=of_grid_or_program)


def _compare() -> Schema:
    types = (
        comparison.Side, comparison.Difference, comparison.LatencyComparison, comparison.RangeChange,
        comparison.FindingChange, GateResult, Note, allocator_memory.MemoryComparison, comparison.StepChange,
    )  # fmt: skip
    side, difference, latency, ranges, findings, gate, note, memory, step_change = map(_ref, types)
    step = {"allOf": [step_change, {"properties": {"change_pct": {"type": "number"}}, "required": ["change_pct"]}]}
    properties = {
        "outcome": _TEXT_OR_NULL, "baseline": side, "candidate": side,
        "differences": _list(difference), "forced": _FLAG, "latency": latency, "step": _or_null(step),
        "ranges": _list(ranges), "findings": _list(findings), "memory": _or_null(memory), "gate": _list(gate),
        "notes": _list(note), "method": _TEXTS, "folder": _TEXT_OR_NULL,
    }  # fmt: skip
    return _of("nsysprof compare --json", properties, types)


def _doctor() -> Schema:
    check = _object(name=_TEXT, state={"enum": ["ok", "warning", "problem", "absent"]}, found=_TEXT, fix=_TEXT)
    return _of("nsysprof doctor --json", {"ok": _FLAG, "checks": _list(check)})


def _explain() -> Schema:
    shapes = _list(_object(call=_ANY_OBJECT, backends=_list(_ANY_OBJECT)))
    return _of("nsysprof explain --json", {"environment": _ANY_OBJECT, "shapes": shapes})


def _export() -> Schema:
    written = _object(path=_TEXT, rows={"type": "object", "additionalProperties": _WHOLE})
    formats = {"type": "object", "additionalProperties": written}
    return _of("nsysprof export --json", {"formats": formats, "notes": _list(_ref(Note))}, (Note,))


def _history() -> Schema:
    properties = {"database": _TEXT, "cases": _list(_ref(CaseHistory))}
    return _of("nsysprof history --json", properties, (CaseHistory, HistoryPoint))


def _tune() -> Schema:
    properties = {
        "folder": _TEXT, "seed": _WHOLE, "complete": _FLAG, "floor_pct": _NUMBER_OR_NULL, "insights": _TEXTS,
        "program": _or_null(_ref(ProgramGain)),
        "winners": rows_schema(case_columns.WINNERS), "cases": rows_schema(case_columns.BENCH_RESULTS),
        "environment": _ANY_OBJECT, "notes": _list(_ref(Note)),
    }  # fmt: skip
    return _of("nsysprof tune --json", properties, (Note, ProgramGain))


def _bench_sides() -> Schema:
    schema = _compare() | {"title": "nsysprof bench --json, of two sides"}
    return schema | {
        "properties": {**schema["properties"], "folder": _TEXT, "seed": _WHOLE},
        "required": [*schema["required"], "seed"],
    }


def _bench_program() -> Schema:
    properties: Schema = {"outcome": _TEXT_OR_NULL, "folder": _TEXT}
    schema = _of("nsysprof bench --json -- PROGRAM", properties, (ProgramComparison,))
    return schema | {"allOf": [_ref(ProgramComparison)]}


def _optimize() -> Schema:
    properties: Schema = {"best": _TEXT_OR_NULL, "folder": _TEXT}
    schema = _of("nsysprof optimize --json", properties, (Optimization,))
    return schema | {"allOf": [_ref(Optimization)]}


def _run() -> Schema:
    return _of("nsysprof run --json", {"exit_code": _WHOLE, "processes": _WHOLE, "use": _ref(PolicyUse)}, (PolicyUse,))


def _view() -> Schema:
    one = _object(name=_TEXT, kind=_TEXT, error=_TEXT_OR_NULL)
    return _of("nsysprof view --json", {"url": _TEXT, "token": _TEXT, "port": _WHOLE, "inputs": _list(one)})


def _whatif() -> Schema:
    schema = _of("nsysprof whatif --json", {}, (WhatIf,))
    return schema | {"allOf": [_ref(WhatIf)]}
