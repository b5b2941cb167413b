"""Make a captured Python program record its memory, stacks and attention, and collect the files of its processes."""

from __future__ import annotations

import contextlib
import math
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import DecodeError, json

from nsysprof.notes import Note, make_note

# The same names as in nsysprof.workload.program_start.sitecustomize, which is not imported because importing it
# activates it.
_VARIABLES = {
    "memory": "NSYSPROF_MEMORY_FOLDER",
    "stacks": "NSYSPROF_STACKS_FOLDER",
    "attention": "NSYSPROF_ATTENTION_FOLDER",
    "operators": "NSYSPROF_OPERATORS_FOLDER",
    "layers": "NSYSPROF_LAYERS_FOLDER",
}
_APPLIED = ("NSYSPROF_POLICY", "NSYSPROF_ATTN_IMPLEMENTATION")
# What is recorded unless the environment says 0: when Python collects garbage, when something is compiled, and when the
# program takes a batch from a data loader.
_ALWAYS = ("NSYSPROF_GC", "NSYSPROF_COMPILES", "NSYSPROF_LOADERS")
_SUFFIXES = {"memory": "pickle", "stacks": "json", "attention": "json", "operators": "json", "layers": "json"}
_MISSING = {
    "memory": "no-memory-snapshot", "stacks": "no-stacks", "attention": "no-attention", "operators": "no-operators",
    "layers": "no-layers",
}  # fmt: skip
HOOK_FOLDER = Path(__file__).parents[2] / "workload" / "program_start"
# The hook's folder and files as they appear in tracebacks.
HOOK_FILES = ("attention_hook.py", "attention_calls/", "attention_facts.py")
# With fewer calls, a share of time means nothing.
_LEAST_CALLS = 10
# How many libraries a note names.
_MOST_PLACES = 4


def hook_path(environment: Mapping[str, str]) -> dict[str, str]:
    """Return PYTHONPATH with which Python runs the start code of nsysprof. environment: the one with the old value."""
    before = environment.get("PYTHONPATH")
    rest = [part for part in before.split(os.pathsep) if part != str(HOOK_FOLDER)] if before else []
    return {"PYTHONPATH": os.pathsep.join([str(HOOK_FOLDER), *rest])}


def hook_environment(report: Path, environment: Mapping[str, str], kinds: tuple[str, ...]) -> dict[str, str]:
    """Return the environment variables that make Python programs record, and create the folders for it.

    They record when Python collects garbage, unless the environment says NSYSPROF_GC=0, what is compiled, unless it
    says NSYSPROF_COMPILES=0, and when a batch is taken from a data loader, unless it says NSYSPROF_LOADERS=0. A policy
    and another attn_implementation that the environment names are applied by the same hook.

    report: where nsys writes its report; the recorded files will be beside it.
    kinds: any of RECORDED_KINDS in program_plan.
    """
    always = {name: "1" for name in _ALWAYS if environment.get(name) != "0"}
    if not always and not kinds and not any(environment.get(name) for name in _APPLIED):
        return {}
    variables = {**hook_path(environment), **always}
    for kind in kinds:
        folder = _work(report, kind)
        folder.mkdir(parents=True, exist_ok=True)
        variables[_VARIABLES[kind]] = str(folder.resolve())
    return variables


def collect_recorded(report: Path, kinds: tuple[str, ...]) -> tuple[Note, ...]:
    """Move the recorded files beside the report; return notes on what is missing, and on what sampling cost."""
    notes = []
    for kind in kinds:
        work, suffix = _work(report, kind), _SUFFIXES[kind]
        files = sorted(work.glob(f"*.{suffix}")) if work.is_dir() else []
        moved = [path.replace(report.with_name(f"{report.stem}.{kind}-{path.stem}.{suffix}")) for path in files]
        with contextlib.suppress(OSError):
            shutil.rmtree(work)
        if not moved:
            notes.append(make_note(_MISSING[kind]))
        elif kind == "stacks":
            notes += _cost(moved)
        elif kind == "attention":
            notes += attention_notes(moved)
        elif kind == "layers":
            notes += _layer_notes(moved)
    return tuple(notes)


def find_recorded(folder: Path, kind: str) -> dict[int, Path]:
    """Return the recorded files in a capture folder with one trace, by the id of the process."""
    name = re.compile(rf"nsys\.{kind}-(\d{{1,10}})\.{_SUFFIXES[kind]}")
    paths = sorted(folder.glob(f"nsys.{kind}-*.{_SUFFIXES[kind]}"))
    matches = ((path, name.fullmatch(path.name)) for path in paths if path.is_file())
    return {int(match[1]): path for path, match in matches if match is not None}


def _cost(paths: list[Path]) -> list[Note]:
    """Return a note on the processor time of the most expensive sampler."""
    shares, samples = [], 0
    for path in paths:
        with contextlib.suppress(DecodeError, OSError, KeyError, TypeError, ValueError, ZeroDivisionError):
            data = json.decode(path.read_bytes())
            shares.append(100.0 * int(data["own_ns"]) / int(data["wall_ns"]))
            samples += len(data["samples"])
    return [make_note("stacks-cost", samples=samples, share=max(shares))] if shares else []


def _layer_notes(paths: list[Path]) -> list[Note]:
    """Return notes on the process with the most modules."""
    recorded = []
    for path in paths:
        with contextlib.suppress(DecodeError, OSError, KeyError, TypeError, ValueError):
            data = json.decode(path.read_bytes())
            own_ns, wall_ns = (int(data[key]) for key in ("own_ns", "wall_ns"))
            # Some of the modules were timed.
            share = 100.0 * own_ns / max(1, wall_ns) * int(data["layers"]) / max(1, int(data["timed_layers"]))
            recorded.append((int(data["layers"]), share, bool(data["backward"])))
    if not recorded or not max(recorded)[0]:
        return [make_note("no-layers")]
    layers, share, has_backward = max(recorded)
    notes = [make_note("layers-recorded", layers=layers, share=f"{share:.1f}")]
    return notes if has_backward else [*notes, make_note("layers-forward-only")]


def _work(report: Path, kind: str) -> Path:
    return report.with_name(f".{report.stem}.{kind}")


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
