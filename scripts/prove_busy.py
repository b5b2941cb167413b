#!/usr/bin/env python3
"""Compare the findings about busy time with what each change really saves.

    scripts/prove_busy.py [--write analysis/h200-busy/README.md]

Reads traces/h200-busy: steps of scripts/programs/busy_faults.py, busy_models.py and busy_products.cu, and the times of
their steps without a profiler, in turns within one process.
"""

from __future__ import annotations

import argparse
import json
import lzma
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from nsysprof.app.trace_analysis.analyze_trace import analyze_trace
from nsysprof.results.findings import Finding, Findings

ROOT = Path(__file__).resolve().parents[1]
TRACES = ROOT / "traces/h200-busy"
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
WHOLE = (Fault("gpt-all", "together", "gpt", "all"), Fault("resnet-all", "together", "resnet", "all", "nchw"))
MENDED = ("gpt-none", "resnet-none", "diffusion-nchw", "products-none", "bert-mended", "vit-mended", "llama-mended",
          "vgg-mended")  # fmt: skip
HEAD = """# Findings about busy time against what changes really save, on an H200

`scripts/programs/busy_faults.py`, `busy_models.py` and `busy_products.cu` keep the GPU busy with the wrong work.
`scripts/prove_busy.py` analyses the traces in `traces/h200-busy` and writes this page.

*True saving*: the median step with the fault less the median step without it, both without a profiler, in turns within
one process; in brackets the range over {turns} turns. *Predicted*: the saving of the finding, from a trace of another
process, by names and times of kernels alone. *Off*: by how much of the step the prediction misses the true saving, and
whether that is within {most} % of the step.

The factors of the findings were chosen with the first programs. Those of the second table were recorded and predicted
afterwards, and only then measured. They are models of torchvision and transformers as they come. A further one, an
LSTM, was predicted wrongly at first: waits between cuDNN's own streams hid its products without tensor cores. Such
waits are no finding since.
"""
TABLE = """| program | step, ms | true saving, ms | finding | predicted, ms | off, % of step | within |
|---|--:|--:|---|--:|--:|---|"""


def analyze(name: str, folder: Path) -> Findings:
    """Return the findings of a trace of this study."""
    path = folder / f"{name}.sqlite"
    path.write_bytes(lzma.decompress((TRACES / f"{name}.sqlite.xz").read_bytes()))
    findings = analyze_trace(path).findings
    assert findings is not None
    return findings


def _row(fault: Fault, findings: Findings, times: dict[str, dict[str, list[float]]]) -> str:
    step, saved, least, most = fault.saved_ms(times)
    item = next((item for item in findings.items if item.code == fault.code), None)
    if fault.code == "together":
        predicted, shown = findings.together_ns / 1e6, f"{findings.together_ns / 1e6:.1f}"
    elif item is None:
        predicted, shown = 0.0, "not found"
    else:
        predicted, shown = item.saving_ns / 1e6, _interval(item)
    off = 100 * (predicted - saved) / step
    code = "all together" if fault.code == "together" else f"`{fault.code}`"
    return (
        f"| {fault.trace} | {step:.1f} | {saved:.1f} [{least:.1f}, {most:.1f}] | {code} | {shown} | {off:+.1f} | "
        f"{'yes' if abs(off) <= MOST_OFF_PCT else 'no'} |"
    )


def _interval(item: Finding) -> str:
    return f"{item.saving_ns / 1e6:.1f} [{item.saving_low_ns / 1e6:.1f}, {item.saving_high_ns / 1e6:.1f}]"


def write_page() -> str:
    """Return the page of the study."""
    times = json.loads((TRACES / "step_times.json").read_text(encoding="utf-8"))
    names = {fault.trace for fault in (*PLANTED, *UNSEEN)} | set(MENDED) | {"gpt-all"}
    with tempfile.TemporaryDirectory() as folder:
        findings = {name: analyze(name, Path(folder)) for name in sorted(names)}
    lines = [HEAD.format(turns=len(times["gpt"]["none"]), most=MOST_OFF_PCT)]
    for title, faults in (("Planted", PLANTED), ("Not seen before", UNSEEN), ("All faults at once", WHOLE)):
        lines += [f"## {title}", "", TABLE, *(_row(fault, findings[fault.trace], times) for fault in faults), ""]
    lines += [
        "## Mended programs", "",
        f"What is still found there above {ACCUSED_PCT} % of a step:", "",
        "| program | step, ms | findings |", "|---|--:|---|",
    ]  # fmt: skip
    for name in MENDED:
        found = findings[name]
        accused = [
            f"`{item.code}` {_interval(item)} ms"
            for item in found.items
            if 100 * item.saving_ns > ACCUSED_PCT * found.step_ns
        ]
        lines.append(f"| {name} | {found.step_ns / 1e6:.1f} | {', '.join(accused) or 'nothing'} |")
    lines += [
        "", "`nsys analyze` names none of these faults: its rules know copies, synchronisation and idle time. On the "
        "recordings of gpt-all and resnet-all they reported the one `cudaDeviceSynchronize` at the end.",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def main() -> int:
    """Print the page, or write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="the file to write")
    arguments = parser.parse_args()
    page = write_page()
    if arguments.write:
        arguments.write.write_text(page, encoding="utf-8")
    else:
        print(page, end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
