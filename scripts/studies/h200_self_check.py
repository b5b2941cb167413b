"""Fill the study of copies of the same code, measured in the same processes."""

from __future__ import annotations

import lzma
import tempfile
from pathlib import Path

from nsysprof.analysis.sampling.bench import check_self
from nsysprof.analysis.sampling.significance import LEAST_PCT, MARGIN_PCT
from nsysprof.capture.sampling.bench_run import read_run
from scripts.studies.tables import ANALYSIS


def facts() -> dict[str, str]:
    """Return the numbers of the page."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "samples.json"
        path.write_bytes(lzma.decompress((ANALYSIS / "h200-self-check/samples.json.xz").read_bytes()))
        run = read_run(path)
    found = check_self(run.blocks, len(run.plan.cells), run.plan.copies)
    return {
        "copies": str(run.plan.copies),
        "cases": str(len(run.plan.cases)),
        "processes": str(len({block.process for block in run.blocks})),
        "pairs": str(found.pairs),
        "alarms": str(found.alarms),
        "same": str(found.same),
        "margin": f"{MARGIN_PCT:g}",
        "least": f"{LEAST_PCT:g}",
        "floor": f"{found.floor_pct:.2f}",
    }
