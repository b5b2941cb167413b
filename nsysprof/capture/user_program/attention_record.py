"""Make notes about the attention calls that a captured program's processes recorded, and what that cost."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import DecodeError, json

from nsysprof.notes import Note, make_note

# The hook's folder and files as they appear in tracebacks.
HOOK_FILES = ("attention_hook.py", "attention_calls/", "attention_facts.py")
# With fewer calls, a share of time means nothing.
_LEAST_CALLS = 10
# How many libraries a note names.
_MOST_PLACES = 4


def attention_notes(paths: Sequence[Path]) -> list[Note]:
    """Return notes on the calls that were recorded, their cost, and what could not be recorded.

    paths: the files that the processes of the program wrote.
    """
    calls = backward = shapes = 0
    shares: list[tuple[float, float]] = []
    problems: list[str] = []
    unseen: set[str] = set()
    for path in paths:
        with contextlib.suppress(DecodeError, OSError, KeyError, TypeError, ValueError, AttributeError):
            data = json.decode(path.read_bytes())
            calls += sum(int(call["forward"]) for call in data["calls"])
            backward += sum(int(call["backward"]) for call in data["calls"])
            shapes += len(data["calls"])
            problems += [str(text) for text in data["problems"]]
            unseen.update(str(text) for text in data.get("unseen", ()))
            shares += _shares(data)
    hidden = [make_note("attention-unseen", places=_list(sorted(unseen)))] if unseen else []
    if not calls + backward:
        return [make_note("no-attention"), *hidden]
    notes = [make_note("attention-recorded", calls=calls, backward=backward, shapes=shapes), *hidden]
    if shares:
        notes.append(make_note("attention-cost", share=_span(*max(shares))))
    if problems:
        notes.append(make_note("attention-problems", problem=problems[0], count=len(problems)))
    return notes


def _list(places: Sequence[str]) -> str:
    """Return the first few places in words."""
    more = f", and {len(places) - _MOST_PLACES} more" if len(places) > _MOST_PLACES else ""
    return ", ".join(places[:_MOST_PLACES]) + more


def _shares(data: dict[str, Any]) -> list[tuple[float, float]]:
    """Return the hook's share of the time from a process's first call to its last, at least and at most (percent).

    Files of earlier versions have no upper bound, which is then infinite.
    """
    wall, most = int(data["wall_ns"]), float(data.get("own_most_ns", math.inf))
    if wall <= 0 or int(data["count"]) < _LEAST_CALLS:
        return []
    return [(100.0 * int(data["own_ns"]) / wall, 100.0 * most / wall)]


def _span(least: float, most: float) -> str:
    return f"{least:.2f} to {most:.2f}" if math.isfinite(most) else f"at least {least:.2f}"
