"""Shorten range names that compilers generate to the part that a person looks for."""

from __future__ import annotations

import re

from nsysprof.results.findings import STEP

# XLA: `Thunk:#name=jit(step)/jvp()/dot_general,hlo_op=command_buffer_1,unique_hlo_op_id=3#`.
_XLA = re.compile(r"(\w+):#(.*)#$", re.DOTALL)
_FIELD = re.compile(r"(?:^|,)(hlo_module|hlo_op|name|module)=([^,]+)")
# The label is the first of these fields that a range has.
_TELLING = ("hlo_op", "hlo_module", "name", "module")
_WHOLE_TRACE = "(the whole trace)"


def step_label(per: str) -> str:
    """Return what a time refers to: `a step (train)`, or `a step` where the steps have no range of their own."""
    return "a step" if per == STEP else f"a step ({range_label(per)})"


def range_label(name: str) -> str:
    """Return the name of a range, or the kind and the subject of one that XLA annotated (`Thunk command_buffer_1`)."""
    found = _XLA.match(name)
    if found is None:
        return name
    fields = dict(_FIELD.findall(found[2]))
    telling = next((fields[key] for key in _TELLING if key in fields), None)
    return name if telling is None else f"{found[1]} {telling}"


def qualified_name(name: str | None, domain: str | None) -> str:
    """Return a range's name with its domain in front; without a name, that it is the whole trace."""
    return _WHOLE_TRACE if name is None else f"{domain}:{name}" if domain else name
