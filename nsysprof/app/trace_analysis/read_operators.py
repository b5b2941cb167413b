"""Read what a captured program's processes wrote of their operators."""

from __future__ import annotations

from pathlib import Path

from nsysprof.files.json_file import FileHeader, read_json
from nsysprof.torchprof.operator_facts import OperatorFacts

_LARGEST_BYTES = 256 << 20


class _Operators(FileHeader, kw_only=True):
    """The file that the recorder writes; see nsysprof.workload.program_start.operator_recorder."""

    operators: list[OperatorFacts]


def read_operators(source: Path) -> dict[int, dict[int, OperatorFacts]]:
    """Return the operators in a capture folder by process and by their number. Raises TraceError for a damaged file."""
    if not source.is_dir():
        return {}
    from nsysprof.capture.user_program.program_hook import find_recorded

    paths = find_recorded(source, "operators")
    return {process: _read(path) for process, path in paths.items()}


def _read(path: Path) -> dict[int, OperatorFacts]:
    advice = "Remove it, and analyze again."
    kind = "a file of operators"
    data = read_json(path, _Operators, kind=kind, advice=advice, newest=1, largest_bytes=_LARGEST_BYTES)
    return {operator.op_id: operator for operator in data.operators if operator.op_id}
