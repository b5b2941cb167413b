"""Fill the study of captures of programs that count their own kernels, and of planted losses."""

from __future__ import annotations

import json
from typing import Any

from scripts.studies.tables import ANALYSIS, markdown
from tests.captured_programs.outcome import AGAIN, Outcome, Planted, ServerPart

WHAT = {
    "jax": "JAX, a compiled function",
    "compile": "torch.compile",
    "torchrun": "two workers of torchrun, one trace",
    "fork": "two forked processes",
    "spawn": "two spawned processes",
    "c++": "C++, two streams and a graph",
    "cupy": "CuPy, two streams",
    "eager": "torch, eager",
    "graphs": "torch, a CUDA graph",
    "server": "an HTTP server and its clients",
    "killed": "ended by SIGKILL",
    "memory": "ended by out of memory",
    "exec": "replaced itself by another program",
}
_DID = {
    "caught": "ends with 12",
    "recovered": "records again, all is there",
    "again": "records again with whole graphs",
    "silent": "says nothing",
    "honest": "loses nothing, or says so",
    "resampled": "records again with fewer samples, or says so",
}


def facts() -> dict[str, str]:
    """Return the numbers of the page."""
    data = json.loads((ANALYSIS / "h200-captures/captures.json").read_text(encoding="utf-8"))
    programs = [Outcome(**each) for each in data["programs"]]
    planted = [Planted(**each) for each in data["planted"]]
    parts = [ServerPart(**each) for each in data["server"]]
    return {
        "gpu": data["machine"]["gpu_name"],
        "driver": data["machine"]["driver_version"],
        "nsys": data["machine"]["nsys_version"],
        "programs": str(len(programs)),
        "right": str(sum(each.is_right for each in programs)),
        "whole": str(sum(each.is_right and each.ours == each.expected for each in programs)),
        "again": ", ".join(each.name for each in programs if AGAIN in each.notes) or "none",
        "only_bare": _only_bare(programs),
        "lacking": ", ".join(each.name for each in programs if (each.bare or 0) < (each.ours or 0)) or "none",
        "samples": f"{sum(each.bare_cpu_samples for each in programs):,}",
        "table": _programs(programs),
        "server": _server(parts),
        "server_right": str(sum(each.is_right for each in parts)),
        "parts": str(len(parts)),
        "planted": str(len(planted)),
        "planted_right": str(sum(each.is_right for each in planted)),
        "losses": _losses(planted),
        "jax_kernels": _names(next(each for each in programs if each.name == "jax")),
    }


def _programs(programs: list[Outcome]) -> str:
    head = ["program", "counted", "ours", "bare nsys", "exit code", "capture says"]
    rows = [
        (WHAT[each.name], each.expected, each.ours, each.bare, each.exit_code, _codes(each.notes)) for each in programs
    ]
    return markdown(head, "lrrrrl", rows)


def _server(parts: list[ServerPart]) -> str:
    head = ["recording", "steps", "kernels", "a step's own count", "before", "during", "after", "after / before [95 %]"]
    rows = []
    for number, part in enumerate(parts, 1):
        times = [_ms(each) for each in (part.before_ms, part.during_ms, part.after_ms)]
        rows.append((number, part.steps, part.kernels, part.per_step, *times, _ratio(part)))
    return markdown(head, "rrrrrrrr", rows)


def _losses(planted: list[Planted]) -> str:
    head = ["what is lost", "program", "to do", "exit code", "kernels", "capture says", "as it should"]
    rows = [
        (
            _escape(each.loss.replace("@", " with ")), each.program, _DID[each.expects], each.exit_code,
            f"{each.kernels} of {each.expected}", _codes(each.notes), "yes" if each.is_right else "**no**",
        )
        for each in planted
    ]  # fmt: skip
    return markdown(head, "lllrrll", rows)


def _only_bare(programs: list[Outcome]) -> str:
    found = [f"{WHAT[each.name]}: {', '.join(each.only_bare)}" for each in programs if each.only_bare]
    return _escape("; ".join(found)) or "nothing"


def _names(outcome: Outcome) -> str:
    return ", ".join(f"{count} {_escape(name)}" for name, count in sorted(outcome.names.items())) or "none"


def _codes(notes: list[str]) -> str:
    return ", ".join(f"`{code}`" for code in dict.fromkeys(notes)) or "–"


def _ms(value: float | None) -> str:
    return "?" if value is None else f"{value:.2f} ms"


def _ratio(part: Any) -> str:
    if part.ratio is None or part.ratio_low is None:
        return "?"
    return f"{part.ratio:.3f} [{part.ratio_low:.3f}, {part.ratio_high:.3f}]"


def _escape(text: str) -> str:
    return f"`{text}`" if "--" in text or "_" in text else text
