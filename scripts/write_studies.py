#!/usr/bin/env python3
"""Write the README of each study in analysis/ from its template and the committed data, and pages of `optimize`.

    scripts/write_studies.py              write them
    scripts/write_studies.py --check      write nothing; exit code 1 where a page is not what its data say
    scripts/write_studies.py --refresh    first evaluate the raw samples of the benches anew, and write the reports of
                                          captures in traces/ as `analyze` writes them now; then write the pages

Templates and the code that fills them are in scripts/studies. Do not edit a README of a study: edit its template. Two
studies replay traces and have scripts of their own: scripts/prove_stragglers.py (h200-ddp) and
scripts/prove_findings.py (h200-faults).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from nsysprof.app.analyze import AnalyzeRequest, analyze  # noqa: E402
from scripts.studies import (  # noqa: E402
    cpu_sdpa,
    h200_captures,
    h200_dram,
    h200_optimize,
    h200_roofline,
    h200_same_code,
    h200_sdpa,
    h200_self_check,
    h200_serving,
    h200_tune,
)
from scripts.studies.tables import template  # noqa: E402

STUDIES: dict[str, Callable[[], dict[str, str]]] = {
    "cpu-sdpa": cpu_sdpa.facts,
    "h200-captures": h200_captures.facts,
    "h200-dram": h200_dram.facts,
    "h200-optimize": h200_optimize.facts,
    "h200-roofline": h200_roofline.facts,
    "h200-same-code": h200_same_code.facts,
    "h200-sdpa": h200_sdpa.facts,
    "h200-self-check": h200_self_check.facts,
    "h200-serving": h200_serving.facts,
    "h200-tune": h200_tune.facts,
}
# Studies with the report of a capture in traces/.
REPORTED = ("h200-roofline", "h200-sdpa")


def report(name: str) -> str:
    """Return the report.md that `analyze` writes of a capture in traces/."""
    with tempfile.TemporaryDirectory() as work:
        analyze(AnalyzeRequest(inputs=(ROOT / "traces" / name,), out=Path(work) / name))
        return (Path(work) / name / "report.md").read_text(encoding="utf-8")


def render(name: str) -> str:
    """Return the README of a study. Raises KeyError for a placeholder that has no number."""
    return template(name).format_map(STUDIES[name]())


def main() -> int:
    """Write or check the pages and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, and fail where a page is out of date")
    parser.add_argument("--refresh", action="store_true", help="first evaluate samples and captures anew")
    options = parser.parse_args()
    if options.refresh:
        h200_tune.refresh()
        h200_same_code.refresh()
        for name in REPORTED:
            (ROOT / "analysis" / name / "report.md").write_text(report(name), encoding="utf-8")
    stale = []
    pages = {ROOT / "analysis" / name / "README.md": render(name) for name in STUDIES} | h200_optimize.pages()
    for page, text in pages.items():
        if not page.is_file() or page.read_text(encoding="utf-8") != text:
            stale.append(str(page.relative_to(ROOT)))
            if not options.check:
                page.write_text(text, encoding="utf-8")
    if options.check and stale:
        print(f"not what the data say: {', '.join(stale)}; run scripts/write_studies.py", file=sys.stderr)
        return 1
    print("the studies are what their data say" if options.check else f"written: {', '.join(stale) or 'nothing to do'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
