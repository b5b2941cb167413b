"""Holds what a command printed with --json against the JSON Schema that is published for it."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from nsysprof.report.json_schema import command_schemas


@cache
def _validator(schema: str) -> Any:
    import jsonschema

    return jsonschema.Draft202012Validator(command_schemas()[schema])


def as_published(schema: str, printed: str) -> Any:
    """Return what was printed, read. schema: the name of the file in docs/schemas without its suffix."""
    data = json.loads(printed)
    _validator(schema).validate(data)
    return data
