"""Measure what the floors of a captured program need: the rates that the GPU reaches, and counters of its kernels."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nsysprof.capture.collect import write_counters
from nsysprof.capture.environment import check_ceilings
from nsysprof.capture.manifest import Manifest
from nsysprof.capture.measured_process import LOGS, tail
from nsysprof.errors import ToolFailedError, TraceError
from nsysprof.notes import make_note
from nsysprof.nsight.ncu import count_kernels, count_program_argv, explain_counters, read_report
from nsysprof.nsight.run_tool import Step, run_tool
from nsysprof.results.checks import MissingSource
from nsysprof.results.kernel_counters import FP64_METRICS, TENSOR_METRICS, CountedKernel, CountedLaunches, Run

_CEILINGS = [sys.executable, "-m", "nsysprof.workload.measuring.ceilings"]
_CEILINGS_S = 180.0
# Kernels matter until those with this share of the time are counted, and no more of them than this.
_SHARE_THAT_MATTERS, _MOST_KERNELS = 0.99, 300
_POLL_S = 0.1
# How long ncu may take to write its report after the budget has ended (s).
_FINISH_S = 30.0
# What ncu prints where no kernel can be counted at all.
_HOPELESS = re.compile(r"ERR_NVGPUCTRPERM|ERR_NVGPUCTRBUSY|driver resource was unavailable|is not compatible")
# The kernel that ncu was counting when it said no more, and the one that it says it could not count.
_BEGUN = re.compile(r'==PROF== Profiling "([^"]+)"(?![^\n]*\bpass)')
_FAILED = re.compile(r'==ERROR==[^\n]*Failed to (?:profile|prepare kernel for profiling) (?:kernel )?"([^"]+)"')


def measure_ceilings(manifest: Manifest) -> None:
    """Write into the manifest what products and copies reach on this GPU; where that fails, a note says why."""
    try:
        done = run_tool(_CEILINGS, timeout_s=_CEILINGS_S)
        if done.returncode != 0:
            raise ValueError((done.stderr.strip().splitlines() or ["it printed nothing"])[-1][:200])
        ceilings: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        check_ceilings(ceilings)
    except (ToolFailedError, ValueError, IndexError) as error:
        manifest.notes.append(make_note("ceilings-unknown", why=str(error).rstrip(".")))
        return
    manifest.environment = {**manifest.environment, "ceilings": ceilings}


def count_program(
    manifest: Manifest, folder: Path, ncu: Path, argv: Sequence[str], launches: Sequence[CountedLaunches], budget_s: int
) -> None:
    """Run a program again under ncu and write the counters of the kernels that matter into counters.csv.

    ncu counts the first launch of each kernel and grid. Where it ends early, the program runs once more for the others.
    What has no counters is in a note, with the reason.

    launches: those of the trace, the most time first.
    """
    counting = _Counting(folder, ncu, list(argv), _that_matter(launches), time.monotonic() + budget_s)
    counting.run()
    manifest.steps += counting.steps
    if counting.counted:
        rows = [replace(kernel, run=run) for kernel in counting.counted for run in Run]
        write_counters(folder, rows)
    if not counting.left:
        return
    total_ns = sum(part.total_ns for part in launches)
    reasons: dict[str, list[CountedLaunches]] = {}
    for part in counting.left:
        why = counting.reasons.get(part.symbol) or counting.ended or "ncu did not see them launched again"
        reasons.setdefault(why, []).append(part)
    for why, parts in reasons.items():
        share = 100 * sum(part.total_ns for part in parts) / max(1, total_ns)
        note = make_note("kernels-not-counted", kernels=len(parts), share=share, why=why, name=parts[0].kernel[:80])
        if counting.counted:
            manifest.notes.append(note)
        else:
            manifest.add_missing(MissingSource.COUNTERS, note)


def _that_matter(launches: Sequence[CountedLaunches]) -> list[CountedLaunches]:
    chosen, before_ns = list[CountedLaunches](), 0
    total_ns = sum(part.total_ns for part in launches)
    for part in launches[:_MOST_KERNELS]:
        if before_ns >= _SHARE_THAT_MATTERS * total_ns:
            break
        chosen.append(part)
        before_ns += part.total_ns
    return chosen


class _Counting:
    """The runs of a program under ncu."""

    def __init__(
        self, folder: Path, ncu: Path, argv: list[str], wanted: list[CountedLaunches], deadline_s: float
    ) -> None:
        self._folder, self._ncu, self._argv, self._deadline_s = folder, ncu, argv, deadline_s
        self.left = wanted
        self.counted: list[CountedKernel] = []
        self.steps: list[Step] = []
        # Why a kernel has no counters, by its mangled name, and why all that are left have none.
        self.reasons: dict[str, str] = {}
        self.ended = ""

    def run(self) -> None:
        """Run until nothing is left, nothing more comes, or the time is over."""
        while not self.ended and (symbols := self._countable()):
            before = len(self.left), len(self.reasons)
            self._run_once(symbols)
            if before == (len(self.left), len(self.reasons)):
                return

    def _countable(self) -> list[str]:
        return list(dict.fromkeys(part.symbol for part in self.left if part.symbol not in self.reasons))

    def _run_once(self, symbols: list[str]) -> None:
        number = len(self.steps) + 1
        report, log = (self._folder / LOGS / f"ncu-{number}.{ending}" for ending in ("ncu-rep", "log"))
        log.parent.mkdir(exist_ok=True)
        argv = count_program_argv(self._ncu, report, symbols, self._argv)
        started = time.monotonic_ns()
        try:
            code = self._wait(argv, log)
        except OSError as error:
            self.ended = f"ncu cannot be run: {error.strerror}"
            return
        self.steps.append(Step(f"counters {number}", tuple(argv), code, time.monotonic_ns() - started))
        said = tail(log)
        try:
            if not report.is_file():
                raise TraceError(f"ncu wrote no report: {explain_counters(said)[0]}.", "")
            named, mangled = (read_report(self._ncu, report, names) for names in ("demangled", "mangled"))
            self._take(count_kernels(
                Run.DETAIL, named.kernels, mangled.kernels, None, (TENSOR_METRICS, *FP64_METRICS)
            ))  # fmt: skip
        except TraceError as error:
            self.ended = self.ended or ("" if _failed_in(said) else error.text.rstrip("."))
        finally:
            report.unlink(missing_ok=True)
        for part in () if self.ended else self.left:
            function = re.split(r"[<(]", part.kernel)[0].rpartition("::")[2].rpartition(" ")[2]
            if not _failed_in(said).isdisjoint((part.symbol, part.kernel, function)):
                self.reasons.setdefault(part.symbol, "ncu could not replay them")

    def _take(self, kernels: list[CountedKernel]) -> None:
        """Keep the first launch of each kernel and grid that is wanted."""
        counted = {(kernel.symbol, kernel.grid, kernel.block): kernel for kernel in reversed(kernels)}
        left = []
        for part in self.left:
            kernel = counted.get((part.symbol, part.grid, part.block))
            if kernel is None:
                left.append(part)
            else:
                self.counted.append(replace(kernel, kernel=part.kernel, position=len(self.counted)))
        self.left = left

    def _wait(self, argv: list[str], log: Path) -> int:
        """Run ncu until it ends, or until the time is over; then it writes what it has."""
        with log.open("wb") as stream:
            process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, start_new_session=True
            )
            try:
                while process.poll() is None:
                    said = tail(log)
                    if _HOPELESS.search(said):
                        self.ended = explain_counters(said)[0]
                    elif time.monotonic() > self._deadline_s:
                        self.ended = "the time for counting was over (--counters-budget)"
                    if self.ended:
                        _end(process)
                    time.sleep(_POLL_S)
            except KeyboardInterrupt:  # the capture itself is whole
                self.ended = "it was interrupted"
                _end(process)
            return process.wait()


def _end(process: subprocess.Popen[bytes], first: signal.Signals = signal.SIGINT) -> None:
    """End ncu and its program, gently at first, so that ncu writes its report."""
    for number in (first, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_FINISH_S)
            break


def _failed_in(said: str) -> set[str]:
    """Return the kernels that ncu could not count, by what it printed."""
    return {match[1] for pattern in (_FAILED, _BEGUN) for match in pattern.finditer(said)}
