#!/usr/bin/env python3
"""Compare every number of an analysis with a second computation, and with nsys stats where it is installed.

    scripts/oracle.py                          traces/ and built traces, with every nsys that is found
    scripts/oracle.py --all                    those of traces/ too that are much like others
    scripts/oracle.py --no-nsys FOLDER         every .sqlite and .sqlite.xz below a folder of your own
    scripts/oracle.py --nsys /opt/nsys/bin/nsys my.sqlite
    scripts/oracle.py --write                  write the tables of docs/parity.md again

The second opinion (tests/second_opinion) is SQL and plain loops, written from the schema of nsys' exports without a
line of the package. It computes kernels.csv, api.csv, memops.csv, ranges.csv, range_instances.csv, range_kernels.csv
and the totals of summary.json; every cell must be the same. nsys stats is compared to the last digit that it prints,
and a difference there needs a rule that gives the very number that nsys printed.

Exit codes: 0 no difference or all explained, 1 unexplained differences, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import re
import shutil
import sys
import tempfile
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.second_opinion.compared import Difference, compare_figures, laws_broken  # noqa: E402
from tests.second_opinion.figures import figures_of  # noqa: E402
from tests.second_opinion.nsys_stats import compare_stats, version_of  # noqa: E402

DOCUMENT = ROOT / "docs" / "parity.md"
BEGIN, END = "<!-- scripts/oracle.py --write: begin -->", "<!-- end -->"
# Trainings and ranks that differ little from those that are left.
MUCH_LIKE_OTHERS = re.compile(
    r"train-|h200-faults/(?!all|none)|fsdp-(?!even_rank0)|rank0*1\b|h200-ddp-even|h200-ranges"
)


@dataclass
class Result:
    """A trace: cells that were compared with the second opinion and with each nsys, and all differences."""

    trace: str
    figures: int = 0
    stats: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)

    @property
    def unexplained(self) -> list[Difference]:
        return [difference for difference in self.differences if difference.explanation is None]


def main() -> int:
    """Parse, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="*", type=Path, help=".sqlite, .sqlite.xz or a folder; default: traces/")
    parser.add_argument("--nsys", type=Path, action="append", help="may be given several times; default: all found")
    parser.add_argument("--no-nsys", action="store_true", help="compare with the second opinion alone")
    parser.add_argument("--all", action="store_true", help="leave out no trace of traces/")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="traces at once (%(default)s)")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true")
    form.add_argument("--markdown", action="store_true")
    form.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    missing = [path for path in (*(arguments.nsys or ()), *arguments.traces) if not path.exists()]
    if missing:
        print(f"scripts/oracle.py: {missing[0]} does not exist", file=sys.stderr)
        return 2
    tools = [] if arguments.no_nsys else arguments.nsys or find_all_nsys()
    with tempfile.TemporaryDirectory(prefix="oracle-") as scratch:
        folder = Path(scratch)
        sources = find_traces(arguments.traces, take_all=arguments.all)
        built = [] if arguments.traces else build(folder)
        judge = partial(judge_trace, tools=tools, folder=folder)
        if arguments.jobs > 1 and len(sources) > 1:
            with ProcessPoolExecutor(arguments.jobs) as pool:
                results = list(pool.map(judge, [*sources, *built]))
        else:
            results = [judge(source) for source in (*sources, *built)]
    if not results:
        print("scripts/oracle.py: there is no trace", file=sys.stderr)
        return 2
    if arguments.json:
        print(json.dumps([asdict(result) for result in results], indent=1, default=str))
    elif arguments.write:
        write_document(render(results))
    else:
        print(render(results) if arguments.markdown else f"{render(results)}\n{render_unexplained(results)}".strip())
    return 1 if any(result.unexplained for result in results) else 0


def find_all_nsys() -> list[Path]:
    """Return NSYSPROF_NSYS, .nsys*/, the one on PATH and those in NVIDIA's folder, each once."""
    named = [os.environ.get("NSYSPROF_NSYS"), shutil.which("nsys")]
    places = [Path(name) for name in named if name]
    places += sorted(ROOT.glob(".nsys*/bin/nsys")) + sorted(Path("/opt/nvidia/nsight-systems").glob("*/bin/nsys"))
    return list({path.resolve(): path for path in places if path.exists()}.values())


def find_traces(given: list[Path], *, take_all: bool) -> list[Path]:
    """Return the files to judge."""
    found = []
    for path in given or [ROOT / "traces"]:
        inside = sorted(each for each in path.rglob("*") if each.name.endswith((".sqlite", ".sqlite.xz")))
        found += inside if path.is_dir() else [path]
    if given or take_all:
        return found
    return [path for path in found if not MUCH_LIKE_OTHERS.search(str(path.relative_to(ROOT)))]


def name_of(source: Path) -> str:
    name = source.name.removesuffix(".xz").removesuffix(".sqlite")
    return source.parent.name if name == "nsys" else f"{source.parent.name}-{name}" if name.startswith("rank") else name


def judge_trace(source: Path, *, tools: list[Path], folder: Path) -> Result:
    """Analyse a trace and hold it against the second opinion and each nsys."""
    from nsysprof.errors import NsysprofError

    result = Result(name_of(source))
    with tempfile.TemporaryDirectory(dir=folder) as own:
        trace = Path(own) / f"{result.trace}.sqlite"
        data = source.read_bytes()
        trace.write_bytes(lzma.decompress(data) if source.suffix == ".xz" else data)
        try:
            files = written_files(trace)
        except NsysprofError as error:
            result.problems.append(f"not analysed: {error}"[:200])
            return result
        compared = compare_figures(files, figures_of(trace))
        result.figures = compared.cells
        result.differences = [*compared.differences, *laws_broken(files)]
        for nsys in tools:
            stats = compare_stats(nsys, trace, files, Path(own))
            version = version_of(nsys)
            result.stats[version] = stats.cells
            result.problems += [stats.problem] if stats.problem else []
            result.differences += stats.differences
    return result


def written_files(trace: Path) -> dict[str, bytes]:
    """Return the files of an analysis as they are written."""
    from nsysprof.app.analyze import analyze_trace
    from nsysprof.files.plain_file import plain_json
    from nsysprof.report.write import summary_json
    from nsysprof.results.column_registry import analysis_columns as files
    from nsysprof.results.column_registry.csv_table import empty_table, render_csv

    found = analyze_trace(trace)
    tables: list[tuple[Any, Any]] = [
        (files.KERNELS, found.kernels), (files.API, found.api), (files.MEMOPS, found.memops),
        (files.RANGES, found.ranges), (files.RANGE_INSTANCES, found.range_instances),
        (files.RANGE_KERNELS, found.range_kernels), (files.RANGE_TREE, found.range_tree),
        (files.CAUSED_KERNELS, found.caused_kernels),
        (files.MEMORY, empty_table(files.MEMORY) if found.memory_owners is None else found.memory_owners),
        (files.WORK, empty_table(files.WORK) if found.work is None else found.work),
        (files.IDLE, empty_table(files.IDLE) if found.idle is None else found.idle.table),
    ]  # fmt: skip
    summary = plain_json(summary_json(found)).encode("utf-8")
    return {"summary.json": summary, **{file.name: render_csv(table, file) for file, table in tables}}


def build(folder: Path) -> list[Path]:
    """Traces of the cases in which NVIDIA's reports and ours differ."""
    from tests.builders.build_trace import OTHER_PID, OTHER_TID, TID, TraceBuilder

    def new(name: str) -> TraceBuilder:
        made[name] = TraceBuilder("2025.3")
        made[name].gpu(0, cuda=0)
        return made[name]

    made: dict[str, TraceBuilder] = {}
    builder = new("built_backtraces")
    builder.range(0, 1000, "step")
    for at, correlation in ((10, 1), (100, 2)):
        builder.launch(at, correlation)
        builder.call(at, at + 10, correlation, event_class=67)
    builder = new("built_twin_correlations")
    for number, tid in enumerate((TID, OTHER_PID | 1)):
        builder.range(0, 1000, f"process {number}", tid=tid)
        builder.launch(10, 1, tid=tid, name=f"kernel{number}")
    builder = new("built_whole_graphs")
    builder.range(0, 1000, "replay")
    builder.call(10, 20, 1, "cudaGraphLaunch_v10000")
    builder.graph(100, 200, 1)
    builder.range(2000, 3000, "eager")
    builder.launch(2010, 2)
    builder = new("built_recursion")
    builder.range(0, 1000, "recursive")
    builder.range(50, 500, "recursive")
    for at, correlation in ((10, 1), (100, 2), (600, 3)):
        builder.launch(at, correlation)
    builder = new("built_open_range")
    builder.range(0, None, "open")
    builder.launch(10, 1)
    builder.range(1000, 2000, "closed")
    builder.launch(1100, 2)
    builder = new("built_threads")
    builder.range(0, 1000, "step", kind=60)
    builder.launch(10, 1)
    builder.launch(100, 2, tid=OTHER_TID)
    return [each.write(folder / f"{name}.sqlite") for name, each in made.items()]


# What is printed.


def render(results: list[Result]) -> str:
    """Return a line for each trace, then each kind of difference with its explanation and its first example."""
    versions = sorted({version for result in results for version in result.stats})
    heads = ["trace", "figures", *(f"cells of nsys {version}" for version in versions), "explained", "unexplained"]
    lines = [f"| {' | '.join(heads)} |", f"|---|{'---:|' * (len(heads) - 1)}"]
    for result in results:
        explained = len(result.differences) - len(result.unexplained)
        cells = [result.figures, *(result.stats.get(version, "") for version in versions)]
        cells += [explained, len(result.unexplained)]
        lines.append(f"| {result.trace} | {' | '.join(map(str, cells))} |")
        lines += [f"| {result.trace} | {problem} |{' |' * (len(heads) - 2)}" for problem in result.problems]
    kinds: dict[tuple[str, str], list[tuple[Result, Difference]]] = defaultdict(list)
    for result in results:
        for each in result.differences:
            kinds[each.table, each.explanation or "UNEXPLAINED"].append((result, each))
    if kinds:
        lines += ["", "| report | why it differs | differences | for example |", "|---|---|---:|---|"]
    for (table, why), found in kinds.items():
        result, first = found[0]
        example = f"{result.trace}, {first.row[:60]}, {first.column}: ours {say(first.ours)}, nsys {say(first.theirs)}"
        lines.append(f"| `{table}` | {why} | {len(found)} | {example} |")
    return "\n".join(lines)


def render_unexplained(results: list[Result]) -> str:
    """Return a line for each difference that nothing explains."""
    return "\n".join(
        f"UNEXPLAINED {result.trace} {each.table} / {each.row[:100]} / {each.column}: "
        f"ours {say(each.ours)}, expected {say(each.theirs)}"
        for result in results
        for each in result.unexplained
    )


def write_document(tables: str) -> None:
    """Put the tables between the marks in docs/parity.md."""
    before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    DOCUMENT.write_text(f"{before}{BEGIN}\n\n{tables}\n\n{END}{after}", encoding="utf-8")
    print(f"written: {DOCUMENT.relative_to(ROOT)}")


def say(value: Any) -> str:
    return f"{value:.10g}" if isinstance(value, float) else "none" if value is None else str(value)


if __name__ == "__main__":
    sys.exit(main())
