"""Holds what a command printed with --json against the JSON Schema that is published for it."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from scripts.json_schema import command_schemas


@cache
def _validator(schema: str) -> Any:
    import jsonschema

    return jsonschema.Draft202012Validator(command_schemas()[schema])


def as_published(schema: str, printed: str) -> Any:
    """Return what was printed, read. schema: the name of the file in docs/schemas without its suffix."""
    data = json.loads(printed)
    _validator(schema).validate(data)
    whole = command_schemas()[schema]
    assert undocumented(whole, data, whole) == set()
    return data


def undocumented(schema: dict[str, Any], data: Any, whole: dict[str, Any], path: str = "") -> set[str]:
    """Return the paths of fields that an object of the schema with documented fields has beside these.

    whole: the schema with the definitions that others refer to.
    """
    found: set[str] = set()
    for each in _alternatives(schema, data, whole):
        fields = _fields(each, whole)
        if isinstance(data, dict) and fields:
            found |= {f"{path}.{name}" for name in data if name not in fields}
            for name in data.keys() & fields.keys():
                found |= undocumented(fields[name], data[name], whole, f"{path}.{name}")
        elif isinstance(data, list) and "items" in each:
            for row in data[:20]:
                found |= undocumented(each["items"], row, whole, f"{path}[]")
    return found


def _alternatives(schema: dict[str, Any], data: Any, whole: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the schema itself, or those of its alternatives that are of the data's kind."""
    schema = _resolve(schema, whole)
    if "anyOf" not in schema:
        return [schema]
    kind = "object" if isinstance(data, dict) else "array" if isinstance(data, list) else ""
    return [each for each in (_resolve(part, whole) for part in schema["anyOf"]) if each.get("type", kind) == kind]


def _fields(schema: dict[str, Any], whole: dict[str, Any]) -> dict[str, Any]:
    fields = dict(schema.get("properties", {}))
    for part in schema.get("allOf", ()):
        fields |= _fields(_resolve(part, whole), whole)
    return fields


def _resolve(schema: dict[str, Any], whole: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        schema = whole["$defs"][schema["$ref"].rpartition("/")[2]]
    return schema
