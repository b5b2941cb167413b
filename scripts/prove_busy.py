#!/usr/bin/env python3
"""Compare the findings about busy time with what each change really saves.

    scripts/prove_busy.py [--write analysis/h200-busy/README.md]
    scripts/prove_busy.py --recorded FOLDER --nsys .nsys/bin/nsys    read captures with operators again

Reads traces/h200-busy: steps of scripts/programs/busy_faults.py, busy_models.py and busy_products.cu, and the times of
their steps without a profiler, in turns within one process; and analysis/h200-busy: what was found in captures with
operators, which are too large to keep, and what the rules of `nsys analyze` name (scripts/nsys_rules.py).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from nsysprof.app.analyze import analyze_trace
from nsysprof.app.trace_analysis.assemble import assemble
from nsysprof.results.findings import Findings
from scripts.nsys_rules import RULES, count_rows
from scripts.studies.tables import template, unpacked

ROOT = Path(__file__).resolve().parents[1]
TRACES, STUDY = ROOT / "traces/h200-busy", ROOT / "analysis/h200-busy"
WITH_OPERATORS, BY_NSYS = STUDY / "with_operators.json", STUDY / "nsys_rules.json"
MOST_OFF_PCT, ACCUSED_PCT = 15, 3


@dataclass(frozen=True)
class Fault:
    """A program with a fault: its trace, the finding that it has to become, and the two measured forms."""

    trace: str
    code: str
    program: str
    faulty: str
    mended: str = "none"

    def saved_ms(self, times: dict[str, dict[str, list[float]]]) -> tuple[float, float, float, float]:
        """Return the step with the fault, and what its mending saves: the median, the least and the most (ms)."""
        faulty, mended = times[self.program][self.faulty], times[self.program][self.mended]
        saved = [one - other for one, other in zip(faulty, mended, strict=True)]
        middle = statistics.median(faulty) - statistics.median(mended)
        return statistics.median(faulty), middle, min(saved), max(saved)


# In the order of the page. The first group was known when the factors were chosen, the second was not.
PLANTED = (
    Fault("gpt-fp32-head", "no-tensor-cores", "gpt", "fp32-head"),
    Fault("gpt-pieces", "unfused-elementwise", "gpt", "pieces"),
    Fault("gpt-odd-vocabulary", "misaligned-gemm", "gpt", "odd-vocabulary"),
    Fault("gpt-fp32-logits", "large-logits", "gpt", "fp32-logits"),
    Fault("resnet-all", "no-tensor-cores", "resnet", "all", "nchw"),
    Fault("resnet-nchw", "layout-conversion", "resnet", "nchw"),
    Fault("diffusion-pieces", "unfused-elementwise", "diffusion", "pieces"),
    Fault("diffusion-none", "redundant-copy", "diffusion", "none", "nchw"),
    Fault("products-all", "no-tensor-cores", "products", "all", "pieces"),
    Fault("products-all", "unfused-elementwise", "products", "all", "fp32"),
)
UNSEEN = (
    Fault("bert", "no-tensor-cores", "bert", "fp32"),
    Fault("vit", "no-tensor-cores", "vit", "fp32"),
    Fault("vgg", "no-tensor-cores", "vgg", "fp32"),
    Fault("gpt2", "misaligned-gemm", "gpt2", "odd-vocabulary"),
    Fault("llama", "unfused-elementwise", "llama", "pieces"),
    Fault("resnext", "layout-conversion", "resnext", "nchw"),
)
# `nsysprof capture --operators` of the same programs.
OPERATORS = (
    Fault("gpt-fp32-head", "no-tensor-cores", "gpt", "fp32-head"),
    Fault("gpt-pieces", "unfused-elementwise", "gpt", "pieces"),
    Fault("gpt-odd-vocabulary", "misaligned-gemm", "gpt", "odd-vocabulary"),
    Fault("gpt-casts", "redundant-copy", "gpt", "casts"),
    Fault("gpt-loop-optimizer", "unfused-optimizer", "gpt", "loop-optimizer"),
    Fault("resnet-all", "no-tensor-cores", "resnet", "all", "nchw"),
    Fault("resnet-nchw", "layout-conversion", "resnet", "nchw"),
    Fault("diffusion-copies", "redundant-copy", "diffusion", "copies", "nchw"),
    Fault("decode-pieces", "unfused-elementwise", "decode", "pieces"),
    Fault("decode-split-products", "small-work", "decode", "split-products"),
    Fault("bert", "no-tensor-cores", "bert", "fp32"),
    Fault("llama", "unfused-elementwise", "llama", "pieces"),
    Fault("gpt-all", "together", "gpt", "all"),
)
WHOLE = (Fault("gpt-all", "together", "gpt", "all"), Fault("resnet-all", "together", "resnet", "all", "nchw"))
MENDED = ("gpt-none", "resnet-none", "diffusion-nchw", "products-none", "bert-mended", "vit-mended", "llama-mended",
          "vgg-mended")  # fmt: skip


def analyze(name: str) -> Findings:
    """Return the findings of a trace of this study."""
    with unpacked(TRACES / f"{name}.sqlite.xz") as path:
        findings = analyze_trace(path).findings
    assert findings is not None
    return findings


@dataclass(frozen=True)
class Found:
    """What was found in a recording: its step and the saving of all findings (ms), and of each, with its bounds."""

    step_ms: float
    together_ms: float
    savings_ms: dict[str, tuple[float, float, float]]
    by_nsys: dict[str, int]

    @classmethod
    def of(cls, findings: Findings, by_nsys: dict[str, int]) -> Found:
        """Return what the page needs; of a code that was found twice, the larger saving."""
        savings = {
            item.code: (item.saving_ns / 1e6, item.saving_low_ns / 1e6, item.saving_high_ns / 1e6)
            for item in reversed(findings.items)
        }
        return cls(findings.step_ns / 1e6, findings.together_ns / 1e6, savings, by_nsys)


def _row(fault: Fault, found: Found, times: dict[str, dict[str, list[float]]]) -> str:
    step, saved, least, most = fault.saved_ms(times)
    if fault.code == "together":
        predicted, shown = found.together_ms, f"{found.together_ms:.1f}"
    elif fault.code not in found.savings_ms:
        predicted, shown = 0.0, "not found"
    else:
        predicted, shown = found.savings_ms[fault.code][0], _interval(found.savings_ms[fault.code])
    named = ", ".join(f"{rule} {count}" for rule, count in found.by_nsys.items()) or "nothing"
    off = 100 * (predicted - saved) / step
    code = "all together" if fault.code == "together" else f"`{fault.code}`"
    return (
        f"| {fault.trace} | {step:.1f} | {saved:.1f} [{least:.1f}, {most:.1f}] | {code} | {shown} | {off:+.1f} | "
        f"{'yes' if abs(off) <= MOST_OFF_PCT else 'no'} | {named} |"
    )


def _interval(saving_ms: tuple[float, float, float]) -> str:
    return "{:.1f} [{:.1f}, {:.1f}]".format(*saving_ms)


def read_recorded(folder: Path, nsys: str) -> dict[str, object]:
    """Return what is found in captures with operators, by the name of their folders."""
    found = {}
    for fault in OPERATORS:
        capture = folder / fault.trace
        findings = assemble(capture, capture / "nsys.sqlite").analysis.findings
        assert findings is not None
        counts = {rule: count_rows(nsys, capture / "nsys.sqlite", rule) for rule in RULES}
        found[fault.trace] = asdict(Found.of(findings, {rule: count for rule, count in counts.items() if count}))
    return found


def write_page() -> str:
    """Return the page of the study."""
    times = json.loads((TRACES / "step_times.json").read_text(encoding="utf-8"))
    names = {fault.trace for fault in (*PLANTED, *UNSEEN)} | set(MENDED) | {"gpt-all"}
    by_nsys = json.loads(BY_NSYS.read_text(encoding="utf-8"))
    findings = {name: Found.of(analyze(name), by_nsys[f"{TRACES.name}/{name}"]) for name in sorted(names)}
    recorded = {name: Found(**found) for name, found in json.loads(WITH_OPERATORS.read_text("utf-8")).items()}
    mended = []
    for name in MENDED:
        found = findings[name]
        accused = [
            f"`{code}` {_interval(saving)} ms"
            for code, saving in found.savings_ms.items()
            if 100 * saving[0] > ACCUSED_PCT * found.step_ms
        ]
        mended.append(f"| {name} | {found.step_ms:.1f} | {', '.join(accused) or 'nothing'} |")
    tables = {"planted": (PLANTED, findings), "unseen": (UNSEEN, findings), "whole": (WHOLE, findings),
              "operators": (OPERATORS, recorded)}  # fmt: skip
    rows = {
        name: "\n".join(_row(fault, found[fault.trace], times) for fault in faults)
        for name, (faults, found) in tables.items()
    }
    return template("h200-busy").format(
        **rows, turns=len(times["gpt"]["none"]), most_off=MOST_OFF_PCT, accused=ACCUSED_PCT,
        mended="\n".join(mended), rules=", ".join(f"`{rule}`" for rule in RULES),
    )  # fmt: skip


def main() -> int:
    """Print the page, or write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="the file to write")
    parser.add_argument("--recorded", type=Path, help="a folder of captures with operators to read")
    parser.add_argument("--nsys", default="nsys", help="the nsys whose rules are counted with --recorded")
    arguments = parser.parse_args()
    if arguments.recorded:
        found = read_recorded(arguments.recorded, arguments.nsys)
        WITH_OPERATORS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    page = write_page()
    if arguments.write:
        arguments.write.write_text(page, encoding="utf-8")
    else:
        print(page, end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
