"""Pass on what a request and a plan both say, so that no field is spelled out in between."""

from __future__ import annotations

from dataclasses import fields
from typing import Any


def shared_values(request: object, plan: type) -> dict[str, Any]:
    """Return what a request says about those fields of a plan that it has too."""
    return {field.name: getattr(request, field.name) for field in fields(plan) if hasattr(request, field.name)}
