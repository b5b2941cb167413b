#!/usr/bin/env python3
"""Measure the same code twice, and code with a planted change, and check the verdicts of `nsysprof compare`.

    scripts/prove_compare.py FOLDER [--part captures|benches|planted|report] [--nsys NSYS]     needs a GPU

captures: 100 cases under nsys, twice (some 2 minutes). benches: the same 100 cases by bench, twice (some 4). planted:
scripts/planted/planted_attention.py with and without each change, by capture and by bench (some 2). What is in FOLDER
already is not measured again; report (last in every part) compares whatever is there and writes
FOLDER/prove_compare.md. It ends with 1 when compare was wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLANTS = ("launch", "slower", "backend", "memory")
PARTS = ("captures", "benches", "planted")
# 5 backends, 5 lengths, 4 batches: 100 cases.
GRID = ["--backends", "math,flash,efficient,cudnn,auto", "--seq", "128,256,512,1024,2048", "--batch", "1,2,4,8"]
SMALL = ["--backends", "math,naive", "--seq", "32,64", "--heads", "2", "--head-dim", "16", "--device", "cpu"]
PLANTED = ["--backends", "planted_attention:attention", "--seq", "2048,4096", "--batch", "4,8"]
BENCH = ["--processes", "3", "--rounds", "3", "--warmup-seconds", "0.3", "--sample-seconds", "0.3", "--no-check"]
COUNTS = "launches:+1,kernels:+1,vram:+5%"


@dataclass(frozen=True)
class Row:
    """What was compared, what compare had to say of it, and what it said."""

    what: str
    wanted: str
    said: str
    right: bool


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where everything is kept")
    parser.add_argument("--part", choices=(*PARTS, "all", "report"), default="all")
    parser.add_argument("--nsys", default="", help="the nsys of the captures")
    parser.add_argument("--small", action="store_true", help="a few cases on the CPU, to try this script")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    parts = PARTS if arguments.part == "all" else (arguments.part,)
    tracer = ["--profiler", "torch"] if arguments.small else ["--profiler", "nsys"]
    tracer += ["--nsys", arguments.nsys] if arguments.nsys else []
    grid = SMALL if arguments.small else GRID
    planted = [*PLANTED, "--device", "cpu", "--heads", "1", "--dtype", "fp32"] if arguments.small else PLANTED
    if arguments.small:
        planted[planted.index("--seq") + 1] = "256"
    for part, side in ((part, side) for part in parts for side in ("a", "b")):
        if part == "captures":
            measure("capture", [*grid, *tracer, "--no-check"], folder / "captures" / side)
        elif part == "benches":
            measure("bench", [*grid, *BENCH, "--no-figures"], folder / "benches" / side)
    for plant in ("none", *PLANTS) if "planted" in parts else ():
        measure("capture", [*planted, *tracer, "--no-check"], folder / "planted-captures" / plant, plant)
        if plant in ("none", "slower", "memory"):
            rounds = [*BENCH, "--processes", "4", "--rounds", "4", "--no-figures"]
            measure("bench", [*planted, *rounds], folder / "planted-benches" / plant, plant)
    rows = [*same_code(folder), *planted_changes(folder)]
    table = render(rows)
    (folder / "prove_compare.md").write_text(table, encoding="utf-8")
    print(table)
    return 0 if rows and all(row.right for row in rows) else 1


def measure(command: str, arguments: list[str], out: Path, plant: str = "none") -> None:
    """Run capture or bench, unless its result is there."""
    done = out / ("results.csv")
    if done.exists():
        return
    environment = {**os.environ, "NSYSPROF_PLANT": plant}
    paths = [str(ROOT / "scripts" / "planted"), str(ROOT), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    started = time.monotonic()
    argv = [sys.executable, "-m", "nsysprof", command, *arguments, "--out", str(out), "--force"]
    code = subprocess.run(argv, env=environment, stdout=subprocess.DEVNULL, check=False).returncode
    print(f"{command} {out.parent.name}/{out.name}: exit {code}, {time.monotonic() - started:.0f} s", file=sys.stderr)


def compare(old: Path, new: Path, gate: str) -> dict[str, object] | None:
    """Return what compare says; None where an input is missing."""
    if not (old / "results.csv").exists() or not (new / "results.csv").exists():
        return None
    out = old.parent / f"{old.name}-{new.name}"
    argv = [sys.executable, "-m", "nsysprof", "compare", str(old), str(new), "--fail-on", gate, "--out", str(out)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([*argv, "--force"], env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1, 3):
        print(done.stderr, file=sys.stderr)
        return None
    found: dict[str, object] = json.loads((out / "compare.json").read_text(encoding="utf-8"))
    return found


def same_code(folder: Path) -> list[Row]:
    rows = []
    for kind, gate in (("captures", COUNTS), ("benches", "vram:+5%")):
        for old, new in (("a", "a"), ("a", "b")):
            found = compare(folder / kind / old, folder / kind / new, gate)
            if found is not None:
                what = f"{kind}: {'one with itself' if old == new else 'two of the same code'}"
                rows.append(judge_same(what, found))
    return rows


def judge_same(what: str, found: dict) -> Row:  # type: ignore[type-arg]
    counts = count_verdicts(found)
    broken = [f["where"] for gate in found["gate"] for f in gate["findings"] if f["outcome"] == "regression"]
    alarms = counts.get("SLOWER", 0) + counts.get("FASTER", 0)
    said = f"{alarms} alarms of latency in {sum(counts.values())} cases ({spell(counts)}); "
    checked = sum(gate["checked"] for gate in found["gate"])
    said += f"{len(broken)} of {checked} numbers called a regression" + (f": {', '.join(broken[:3])}" if broken else "")
    return Row(what, "no alarm", said, alarms == 0 and not broken)


def planted_changes(folder: Path) -> list[Row]:
    rows = []
    captures, benches = folder / "planted-captures", folder / "planted-benches"
    wanted = {"launch": ("launches:+1", captures), "slower": ("slower:3%", benches), "memory": ("vram:+5%", benches)}
    for plant, (gate, where) in wanted.items():
        found = compare(where / "none", where / plant, gate)
        if found is not None:
            broken = [f for f in found["gate"][0]["findings"] if f["outcome"] == "regression"]  # type: ignore[index]
            cases = len(found["latency"]["changes"])  # type: ignore[index]
            text = f"{found['outcome']}: {len(broken)} findings in {cases} cases"
            text += f", such as {broken[0]['where']}: {broken[0]['text']}" if broken else ""
            rows.append(Row(f"planted: {plant}", f"{gate} regression", text, found["outcome"] == "regression"))
    found = compare(captures / "none", captures / "backend", COUNTS)
    if found is not None:
        notes = [note["text"] for note in found["notes"] if note["code"] == "backend-changed"]  # type: ignore[attr-defined]
        rows.append(Row("planted: backend", "backend-changed", "; ".join(notes[:1]) or "nothing", bool(notes)))
    return rows


def count_verdicts(found: dict) -> dict[str, int]:  # type: ignore[type-arg]
    counts: dict[str, int] = {}
    for change in found["latency"]["changes"]:
        if change["verdict"]:
            counts[change["verdict"]] = counts.get(change["verdict"], 0) + 1
    return counts


def spell(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))


def render(rows: list[Row]) -> str:
    lines = ["| what | had to be | was | |", "|---|---|---|---|"]
    lines += [f"| {row.what} | {row.wanted} | {row.said} | {'right' if row.right else 'WRONG'} |" for row in rows]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
