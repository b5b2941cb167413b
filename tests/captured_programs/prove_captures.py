#!/usr/bin/env python3
"""Capture thirteen kinds of programs that count their own kernels, and compare the traces with these counts.

    prove_captures.py OUT                      everything
    prove_captures.py OUT --only jax,fork      some of the programs (`record`: a server, `planted`: all losses)
    prove_captures.py OUT --jobs 4             several at once; what differs is recorded once more, alone

Each program is also recorded as a user would without nsysprof (`nsys profile -t cuda,nvtx`), which must not record
anything that ours lacks. Then a server under load is held and recorded twice, and losses are planted by a stand-in
for nsys (scripts/planted/lossy_nsys.py), which the capture must catch. Needs a GPU, nsys, nvcc, torch, jax and cupy.
OUT/captures.json holds the result; scripts/write_studies.py makes the page of analysis/h200-captures from it. The exit
code is 1 where a trace lacks something and the capture did not say so.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.captured_programs.held_server import record_server  # noqa: E402
from tests.captured_programs.outcome import Outcome, Planted, ServerPart  # noqa: E402
from tests.captured_programs.overflows import OVERFLOWS, Overflow, holding_up, said_of_buffers  # noqa: E402
from tests.captured_programs.trace_contents import TraceContents, add_up, matching, only_in, read_contents  # noqa: E402

WORK = Path(__file__).parent / "counted_programs"
TORCH = [sys.executable, str(WORK / "torch_work.py")]
LAUNCHER = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "29577"]
PROGRAMS: dict[str, list[str]] = {
    "jax": [sys.executable, str(WORK / "jax_work.py")],
    "compile": [*TORCH, "compile"],
    "torchrun": [*LAUNCHER, str(WORK / "torch_work.py"), "worker"],
    "fork": [*TORCH, "fork"],
    "spawn": [*TORCH, "spawn"],
    "c++": ["CUDA_WORK"],
    "cupy": [sys.executable, str(WORK / "cupy_work.py")],
    "eager": [*TORCH, "eager"],
    "graphs": [*TORCH, "graphs"],
    "server": [*TORCH, "server"],
    "killed": [*TORCH, "killed"],
    "memory": [*TORCH, "memory"],
    "exec": [*TORCH, "exec"],
}
CAUGHT = "caught"
# These are recorded again and again, until nothing is left to try.
AGAIN_IN_VAIN = ("a third of the kernels",)
RECORD, PLANT, STORM = "record", "planted", "overflow"
# What is planted, in which program, and what capture is to do about it.
PLANTED = (
    ("none", "c++", "silent"),
    ("a third of the kernels", "c++", CAUGHT),
    ("one kernel in fifty", "c++", CAUGHT),
    ("all kernels", "c++", CAUGHT),
    ("nodes of graphs", "c++", "again"),
    ("all nodes of graphs", "c++", CAUGHT),
    ("the second half", "c++", CAUGHT),
    ("all of CUDA", "c++", CAUGHT),
    ("kernels of a process", "spawn", CAUGHT),
    ("all of a process", "spawn", CAUGHT),
    ("nodes of graphs@--cuda-memory-usage=true", "c++", "recovered"),
    ("a third of the kernels@--cuda-memory-usage=true", "torchrun", "recovered"),
)
LIMIT_S = 100


def run(argv: list[str], limit_s: float = LIMIT_S, **variables: str) -> tuple[int, str]:
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit_s,
            check=False,
            env={**os.environ, **variables},
        )
    except subprocess.TimeoutExpired as error:
        return 124, f"took more than {error.timeout} s"
    return done.returncode, done.stdout + done.stderr


def program_of(name: str, out: Path) -> list[str]:
    return [str(out / "cuda_work") if word == "CUDA_WORK" else word for word in PROGRAMS[name]]


def capture(
    program: list[str], folder: Path, *options: str, **variables: str
) -> tuple[int, str, list[str], TraceContents, dict[str, int]]:
    """Record with nsysprof; return the exit code, what was printed, the notes, the trace and the program's counts."""
    argv = [sys.executable, "-m", "nsysprof", "capture", "--force", "--out", str(folder), *options, "--", *program]
    code, said = run(argv, **variables)
    printed = "".join(log.read_text(errors="replace") for log in sorted(folder.glob("logs/*stdout.log")))
    found, manifest = re.search(r"EXPECT (\{.*?\})", printed), folder / "manifest.json"
    notes = [note["code"] for note in json.loads(manifest.read_text())["notes"]] if manifest.exists() else []
    traces = sorted(folder.glob("ranks/*.sqlite")) or [folder / "nsys.sqlite"]
    held = add_up(map(read_contents, traces))
    if (folder / "first_recording.sqlite").exists():  # kept for its ranges
        first = read_contents(folder / "first_recording.sqlite").ranges
        names = {*first, *held.ranges}
        held = replace(held, ranges={name: max(first.get(name, 0), held.ranges.get(name, 0)) for name in names})
    return code, said, notes, held, json.loads(found[1]) if found else {}


def record_bare(nsys: str, program: list[str], folder: Path) -> TraceContents:
    """Record as a user would without nsysprof."""
    folder.mkdir(parents=True, exist_ok=True)
    report, trace = folder / "bare.nsys-rep", folder / "bare.sqlite"
    run([nsys, "profile", "-t", "cuda,nvtx", "--force-overwrite=true", "-o", str(report.with_suffix("")), *program])
    if report.exists():
        run([nsys, "export", "--type=sqlite", "--force-overwrite=true", f"--output={trace}", str(report)])
    return read_contents(trace)


def prove(name: str, out: Path, nsys: str) -> Outcome:
    """Return what the two recordings of a program have."""
    outcome, program, began = Outcome(name), program_of(name, out), time.monotonic()
    outcome.exit_code, said, outcome.notes, ours, patterns = capture(program, out / name)
    outcome.seconds = round(time.monotonic() - began, 1)
    if patterns:
        bare = record_bare(nsys, program, out / f"{name}.bare")
        outcome.expected, outcome.names = sum(patterns.values()), ours.kernels
        outcome.ours, outcome.ours_total = matching(ours.kernels, patterns), sum(ours.kernels.values())
        outcome.bare, outcome.bare_total = matching(bare.kernels, patterns), sum(bare.kernels.values())
        outcome.only_bare, outcome.bare_cpu_samples = only_in(bare, ours), bare.cpu_samples
    else:
        outcome.problem = said[-1500:]
    print(
        f"{name:9} counted {outcome.expected}, ours {outcome.ours} (total {outcome.ours_total}), bare {outcome.bare} "
        f"(total {outcome.bare_total}), exit code {outcome.exit_code}, {outcome.seconds} s"
        f"{'' if outcome.is_right else '  DIFFERS'}  {' '.join(outcome.notes)}",
        *(f"    only in the bare trace: {each}" for each in outcome.only_bare),
        *(["    " + outcome.problem.replace("\n", "\n    ")] if outcome.problem else []),
        sep="\n",
        flush=True,
    )
    return outcome


def plant(loss: str, name: str, expects: str, out: Path, nsys: str) -> Planted:
    """Return what capture does about a loss that a stand-in for nsys plants."""
    began = time.monotonic()
    code, _, notes, held, patterns = capture(
        program_of(name, out),
        out / f"planted-{re.sub('[^a-z]+', '-', loss)}",
        *(("--per-rank",) if name == "torchrun" else ()),
        *(("--no-retry",) if expects == CAUGHT and loss not in AGAIN_IN_VAIN else ()),
        *("--no-probe", "--nsys", str(ROOT / "scripts" / "planted" / "lossy_nsys.py")),
        LOSSY_NSYS_REAL=nsys,
        LOSSY_NSYS_LOSS=loss,
    )
    kernels, expected = matching(held.kernels, patterns), sum(patterns.values())
    found = Planted(loss, name, expects, code, kernels, expected, notes, round(time.monotonic() - began, 1))
    print(f"planted {loss} ({name}): exit code {code}, {kernels} of {expected}, {' '.join(notes)}"
          f"{'' if found.is_right else '  NOT AS EXPECTED'}", flush=True)  # fmt: skip
    return found


def overflow(kind: Overflow, out: Path, nsys: str) -> Planted:
    """Return what capture says of a buffer that may overflow for real."""
    began, folder = time.monotonic(), out / f"overflow-{re.sub('[^a-z0-9]+', '-', kind.what.lower())}"
    program = program_of("c++", out)
    variables = {"NSYS_CONFIG_DIRECTIVES": kind.directives} if kind.directives else {}
    options = ("--no-probe", *(() if kind.may_retry else ("--no-retry",)), *kind.options)
    with kind.turn, holding_up(Path(nsys), Path(program[0]).name, kind.held_up_s, folder) as mark:
        code, said, notes, held, patterns = capture(
            [*program, str(kind.launches)], folder, *options, **variables, **mark
        )
    kernels, expected = matching(held.kernels, patterns), sum(patterns.values())
    took = round(time.monotonic() - began, 1)
    trace = folder / "nsys.sqlite"
    buffers = said_of_buffers(trace) if trace.exists() else []
    print(
        f"{kind.what}: exit code {code}, {kernels} of {expected}, {' '.join(notes)}, {took} s",
        *(f"    nsys: {each}" for each in buffers), said[-600:], sep="\n", flush=True,
    )  # fmt: skip
    return Planted(kind.what, "c++", kind.expects, code, kernels, expected, notes, took)


def serve(out: Path) -> list[ServerPart]:
    parts = record_server(out / RECORD)
    for part in parts:
        print(f"record: {part}{'' if part.is_right else '  DIFFERS'}", flush=True)
    return parts


def machine(out: Path) -> dict[str, Any]:
    """Return GPU, driver and nsys as the manifest of the first capture has them."""
    found = next((path for path in sorted(out.glob("*/manifest.json"))), None)
    environment = json.loads(found.read_text())["environment"] if found else {}
    return {name: environment.get(name) for name in ("gpu_name", "driver_version", "nsys_version")}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default=",".join((*PROGRAMS, RECORD, PLANT, STORM)))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3600, help="begin nothing after this time")
    options = parser.parse_args()
    nsys = os.environ.get("NSYSPROF_NSYS") or shutil.which("nsys")
    if nsys is None:
        parser.error("nsys was not found")
    options.out.mkdir(parents=True, exist_ok=True)
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    began, wanted = time.monotonic(), options.only.split(",")
    if {"c++", PLANT, STORM} & set(wanted):
        run(["nvcc", "-O2", "-o", str(options.out / "cuda_work"), str(WORK / "cuda_work.cu")])

    def one(name: str) -> Outcome:
        if time.monotonic() - began > options.seconds:
            return Outcome(name, problem="no time was left")
        return prove(name, options.out, nsys)

    planted: list[Planted] = []
    parts: list[ServerPart] = []
    with ThreadPoolExecutor(options.jobs) as pool:
        outcomes = list(pool.map(one, [name for name in wanted if name in PROGRAMS]))
        if options.jobs > 1:
            outcomes = [each if each.is_right or each.problem else one(each.name) for each in outcomes]
        write(options.out, outcomes, planted, parts)
        if PLANT in wanted:
            planted += pool.map(lambda each: plant(*each, options.out, nsys), PLANTED)
        if STORM in wanted:
            planted += pool.map(lambda each: overflow(each, options.out, nsys), OVERFLOWS)
    write(options.out, outcomes, planted, parts)
    if RECORD in wanted:
        parts += serve(options.out)
        write(options.out, outcomes, planted, parts)
    print(f"{sum(each.is_right for each in outcomes)} of {len(outcomes)} traces are right, "
          f"{sum(each.is_right for each in planted)} of {len(planted)} losses were caught as expected")  # fmt: skip
    honest = all(each.is_honest for each in outcomes)
    return 0 if honest and all(each.is_right for each in (*planted, *parts)) else 1


def write(out: Path, outcomes: list[Outcome], planted: list[Planted], parts: list[ServerPart]) -> None:
    found = {
        "machine": machine(out),
        "programs": [asdict(each) for each in outcomes],
        "planted": [asdict(each) for each in planted],
        "server": [asdict(each) for each in parts],
    }
    (out / "captures.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
