#!/usr/bin/env python3
"""Write the parts of docs/ that come from the code: commands, columns of files, notes, and the schemas of --json.

The costs of commands come from analysis/speed, where benchmarks keep them: scripts/bench.py speed --write writes
measured.json, sizes --measure sizes.json, policy --write policy.json or policy-gpu.json, capture --write capture.json,
start --write starts.json, ranks --write ranks-64.json, and analyze --shape deep --phases --json prints findings.json.

    scripts/generate_docs.py            write them
    scripts/generate_docs.py --check    write nothing; exit code 1 where a page is not as it would be written

A generated part stands between `<!-- generated: WHAT -->` and `<!-- end of generated part -->`. Do not edit it: edit
nsysprof/results/column_registry/columns.tsv or nsysprof/notes.toml and run this.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import typer.main  # noqa: E402

from nsysprof.capture.self_check.reduction import KNOWN_LOSSES  # noqa: E402
from nsysprof.cli import app  # noqa: E402
from nsysprof.notes import registry  # noqa: E402
from nsysprof.results.column_registry.column import FILES, FileColumn, TableFile, files_of  # noqa: E402
from nsysprof.units import format_ns  # noqa: E402
from scripts.benches.capture_cost import SIDES, describe_cost  # noqa: E402
from scripts.benches.phases import findings_ratio  # noqa: E402
from scripts.benches.ranks import render_ranks  # noqa: E402
from scripts.json_schema import command_schemas  # noqa: E402
from scripts.studies.bounds import bounds_table  # noqa: E402

MEASURED, SIZES = ROOT / "analysis/speed/measured.json", ROOT / "analysis/speed/sizes.json"
FINDINGS = ROOT / "analysis/speed/findings.json"
# One file for each machine, and for each time that it was measured there.
POLICIES = "analysis/speed/policy*.json"
CAPTURE = ROOT / "analysis/speed/capture.json"
STARTS = ROOT / "analysis/speed/starts.json"
# One file for each number of traces.
RANKS = "analysis/speed/ranks-*.json"
RATIOS = "analysis/speed/ratio-*.json"
SCHEMAS = ROOT / "docs/schemas"
# What each page must hold a part for.
PAGES = {
    "files.md": {file.folder for file in FILES.values()},
    "notes.md": {kind.page for kind in registry().values()},
    "losses.md": {"all"},
    "causes.md": {"bounds"},
    "cli.md": {"commands"},
    "analyze.md": {"commands", "large", "memory", "sizes", "starts", "findings"},
    "policy.md": {"policy"},
    "program.md": {"capture"},
    "ranks.md": {"ranks"},
}
_PART = re.compile(r"(<!-- generated: (\w+) (\w+) -->\n)(.*?)(<!-- end of generated part -->)", re.DOTALL)


def render_columns(folder: str) -> str:
    """Return the tables of columns of every file that lies in this kind of folder."""
    files = files_of(folder)
    if not files:
        raise KeyError(f"no file is registered for {folder}")
    return "\n".join(_file_table(file) for file in files)


def render_notes(page: str) -> str:
    """Return the table of the notes of one section: code, severity and meaning."""
    lines = ["| code | severity | meaning |", "|---|---|---|"]
    found = [kind for kind in registry().values() if kind.page == page and kind.meaning]
    if not found:
        raise KeyError(f"no note is registered for {page}")
    for kind in found:
        severities = [each for other in registry().values() if other.code == kind.code for each in other.severities]
        named = " or ".join(dict.fromkeys(each.value for each in severities))
        lines.append(f"| `{kind.code}` | {named} | {kind.meaning} |")
    return "\n".join(lines) + "\n"


def render_losses(_part: str) -> str:
    """Return the table of known losses."""
    lines = ["| nsys | driver | option | lost | seen | what helps |", "|---|---|---|---|---|---|"]
    for each in KNOWN_LOSSES:
        option = f"`{each.option}`" if each.option else ""
        lines.append(f"| {each.nsys} | {each.driver} | {option} | {each.lost} | {each.what} | {each.remedy} |")
    return "\n".join(lines) + "\n"


def render_speed(part: str) -> str:
    """Return what commands cost on one trace, analyze over sizes, a policy for each call, or a recording."""
    parts = {
        "sizes": _speed_of_sizes, "commands": _speed_of_commands, "memory": _speed_of_memory,
        "policy": _speed_of_policy, "capture": _speed_of_capture, "findings": _speed_of_findings,
        "starts": _speed_of_starts, "ranks": _speed_of_ranks,
        "ratios": _speed_of_ratios, "large": _speed_of_large,
    }  # fmt: skip
    return parts[part]()


def _speed_of_commands() -> str:
    measured = json.loads(MEASURED.read_text(encoding="utf-8"))
    (shape,) = measured["shapes"]
    size, scan = shape["trace"], shape["timings"][0]
    about = [f"{size[key]:,} {name}" for key, name in (("kernels", "kernels"), ("api_calls", "API calls"))]
    about += [f"{size['ranges']:,} ranges nested four deep", f"{size['bytes'] / 1e6:,.0f} MB"]
    lines = [f"{', '.join(about)}; {_machine(measured)}:", ""]
    lines += ["| command | processor (s) | times the scan | peak memory (MB) |", "|---|---:|---:|---:|"]
    for timing in shape["timings"]:
        cost = f"{timing['cpu_s']:.2f} | {timing['cpu_s'] / scan['cpu_s']:.1f}"
        lines.append(f"| {timing['name']} | {cost} | {timing['peak_bytes'] / 1e6:,.0f} |")
    return "\n".join(lines) + "\n"


def _speed_of_starts() -> str:
    measured = json.loads(STARTS.read_text(encoding="utf-8"))
    lines = [f"The least of several runs in turn; {_machine(measured)}:", ""]
    lines += ["| command | processor (s) | peak memory (MB) |", "|---|---:|---:|"]
    for timing in measured["timings"]:
        lines.append(f"| {timing['name']} | {timing['cpu_s']:.2f} | {timing['peak_bytes'] / 1e6:,.0f} |")
    return "\n".join(lines) + "\n"


def _speed_of_ranks() -> str:
    found = [json.loads(path.read_text(encoding="utf-8")) for path in ROOT.glob(RANKS)]
    if not found:
        return "Not measured yet on a machine that does nothing else.\n"
    return "\n".join(render_ranks(each) for each in sorted(found, key=lambda each: int(each["traces"])))


def _speed_of_sizes() -> str:
    measured = json.loads(SIZES.read_text(encoding="utf-8"))
    lines = [f"Ranges nested four deep; {_machine(measured)}; each ran once:", ""]
    lines += ["| kernels | bare scan (s) | analyze (s) | nsys stats (s) | analyze, peak (MB) | nsys stats, peak (MB) |"]
    lines += ["|---:|---:|---:|---:|---:|---:|"]
    for size in measured["sizes"]:
        scan, ours, *peers = size["timings"]
        cells = [f"{size['kernels']:,}", *(f"{each['cpu_s']:.2f}" for each in (scan, ours))]
        cells += [f"{sum(each['cpu_s'] for each in peers):.2f}", f"{ours['peak_bytes'] / 1e6:,.0f}"]
        cells += [f"{max(each['peak_bytes'] for each in peers) / 1e6:,.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _speed_of_ratios() -> str:
    lines = []
    for path in sorted(ROOT.glob(RATIOS)):
        measured = json.loads(path.read_text(encoding="utf-8"))
        if not lines:
            lines += [f"Medians of {measured['runs']} runs; {_machine(measured)}:", ""]
            lines += [
                "| trace | kernels | bare scan (s) | analyze (s) | ratio | by processor time | peak memory (MB) |"
            ]
            lines += ["|---|---:|---:|---:|---:|---:|---:|"]
        for shape in measured["shapes"]:
            scan, ours, *_ = shape["timings"]
            walls = f"{scan['wall_s']:.2f} | {ours['wall_s']:.2f} | {ours['wall_s'] / scan['wall_s']:.1f}"
            rest = f"{ours['cpu_s'] / scan['cpu_s']:.1f} | {ours['peak_bytes'] / 1e6:,.0f}"
            lines.append(f"| {shape['shape']} | {shape['trace']['kernels']:,} | {walls} | {rest} |")
    return "\n".join(lines or ["Not measured yet."]) + "\n"


def _speed_of_large() -> str:
    """Return the commands on the traces of the ratios, which were measured in the same runs."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(ROOT.glob(RATIOS))]
    shapes = [shape for measured in found for shape in measured["shapes"]]
    heads = [f"{shape['shape']} (s) | {shape['shape']}, peak (MB)" for shape in shapes]
    lines = [f"| command | {' | '.join(heads)} |", f"|---|{'---:|' * 2 * len(shapes)}"]
    for timings in zip(*(shape["timings"] for shape in shapes), strict=True):
        cells = [f"{timing['wall_s']:.1f} | {timing['peak_bytes'] / 1e6:,.0f}" for timing in timings]
        lines.append(f"| {timings[0]['name']} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _speed_of_findings() -> str:
    measured = json.loads(FINDINGS.read_text(encoding="utf-8"))
    (shape,) = measured["shapes"]
    phases = shape["phases"]
    return (
        f"On {shape['trace']['kernels']:,} kernels in ranges nested four deep, `analyze` takes {phases['cpu_s']:.1f} s "
        f"of processor time with findings, {findings_ratio(phases):.2f} times as long as without. It was measured on "
        f"{_machine(measured)}.\n"
    )


def _speed_of_memory() -> str:
    """Return what the largest two sizes say of the memory for a million kernels, and what figures add."""
    sizes = sorted(json.loads(SIZES.read_text(encoding="utf-8"))["sizes"], key=lambda size: size["kernels"])
    peaks = [_peak_mb(size["timings"], "nsysprof analyze --no-figures") for size in sizes]
    kernels = [size["kernels"] for size in sizes]
    share = (peaks[-1] - peaks[-2]) / (kernels[-1] - kernels[-2]) * 1e6
    deep = json.loads((ROOT / "analysis/speed/ratio-deep.json").read_text(encoding="utf-8"))["shapes"][0]
    figures = _peak_mb(deep["timings"], "nsysprof analyze")
    return (
        f"`analyze --no-figures` takes {share:.0f} MB for a million kernels, with their API calls and ranges, beside "
        f"the {peaks[0]:.0f} MB of a small trace: {peaks[-2]:,.0f} MB for {kernels[-2]:,} kernels and "
        f"{peaks[-1]:,.0f} MB for {kernels[-1]:,}. Figures add to the peak: {figures:,.0f} MB for "
        f"{deep['trace']['kernels']:,} kernels.\n"
    )


def _peak_mb(timings: list[dict[str, Any]], command: str) -> float:
    return next(float(timing["peak_bytes"]) for timing in timings if timing["name"] == command) / 1e6


def _speed_of_policy() -> str:
    return "\n".join(_policy_table(path) for path in sorted(ROOT.glob(POLICIES)))


def _policy_table(path: Path) -> str:
    measured = json.loads(path.read_text(encoding="utf-8"))
    calls = measured["call_ns"]
    where = "one thread, without a GPU" if measured["device"] == "cpu" else "launched on the GPU"
    lines = [f"{_machine(measured)}; torch {measured['torch']}, {where}, {measured['rounds']} rounds:", ""]
    lines += ["| | a call | more than torch alone |", "|---|---:|---:|"]
    for way, time_ns in calls.items():
        lines.append(f"| {way} | {format_ns(time_ns)} | {format_ns(time_ns - calls['torch alone'])} |")
    return "\n".join(lines) + "\n"


def _speed_of_capture() -> str:
    measured = json.loads(CAPTURE.read_text(encoding="utf-8"))
    turns = measured["turns"]
    lines = [f"{measured['gpu']}, {measured['steps']:,} steps of 120 kernels, {len(turns)} turns:", ""]
    lines += ["| | `nsys profile` | `nsysprof capture` | more [95 %] |", "|---|---:|---:|---:|"]
    for what, key, scale in (("a step of the program", "step_ns", 1), ("the whole command", "command_s", 1e9)):
        plain, own = (format_ns(int(scale * statistics.median(each[side][key] for each in turns))) for side in SIDES)
        lines.append(f"| {what} | {plain} | {own} | {describe_cost(turns, key)} |")
    return "\n".join(lines) + "\n"


def _machine(measured: dict[str, Any]) -> str:
    """Return what something was measured on, with what else kept that machine busy."""
    return f"{measured['machine']}, on which other programs ran (load {measured['load']:.1f} at the start)"


def _file_table(file: TableFile) -> str:
    lines = [f"#### `{file.name}`", "", file.row, "", "| column | type | unit | meaning |", "|---|---|---|---|"]
    lines += [f"| `{column.name}` | {_type(column)} | {column.unit} | {_meaning(column)} |" for column in file.columns]
    return "\n".join(lines) + "\n"


def _type(column: FileColumn) -> str:
    return f"{column.dtype.value}, may be empty" if column.nullable else column.dtype.value


def _meaning(column: FileColumn) -> str:
    text = column.doc.replace("|", "\\|")
    return f"{text} Only with {column.only_with}." if column.only_with else text


def render_commands(_: str) -> str:
    """Return the reference of all commands, from the command line's own definition."""
    group: Any = typer.main.get_command(app)
    parts = []
    for name, command in group.commands.items():
        context = command.context_class(command, info_name=f"nsysprof {name}")
        usage = " ".join(["nsysprof", name, *command.collect_usage_pieces(context)])
        parts += [f"## {name}", "", _paragraphs(command.help or ""), "", "```", usage, "```", ""]
        records = [parameter.get_help_record(context) for parameter in command.get_params(context)]
        rows = [f"| `{record[0].strip()}` | {_escape(' '.join(record[1].split()))} |" for record in records if record]
        parts += ["| parameter | meaning |", "|---|---|", *(row for row in rows), ""]
        examples = [line for line in (command.epilog or "").split("\n\n") if line.startswith("$ ")]
        parts += ["```", *examples, "```", ""] if examples else []
    return "\n".join(parts)


def _paragraphs(text: str) -> str:
    """Help without click's marks: a block after \\b keeps its lines, as code."""
    blocks = []
    for block in re.split(r"\n\s*\n", text.strip()):
        if block.startswith("\b"):
            blocks.append("```\n" + block.removeprefix("\b").strip("\n") + "\n```")
        else:
            blocks.append(_escape(" ".join(block.split())))
    return "\n\n".join(blocks)


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")


def generate(text: str, wanted: set[str]) -> str:
    """Return a page with its generated parts as the registries have them now.

    wanted: what the page must hold a part for, so that nothing of a registry stays out of the documentation.
    """
    render = {
        "reference": render_commands,
        "columns": render_columns,
        "notes": render_notes,
        "losses": render_losses,
        "speed": render_speed,
        "studies": lambda _part: bounds_table(),
    }
    missing = wanted - {part[3] for part in _PART.finditer(text)}
    if missing:
        raise SystemExit(f"scripts/generate_docs.py: no generated part for {', '.join(sorted(missing))}")
    return _PART.sub(lambda part: f"{part[1]}\n{render[part[2]](part[3])}\n{part[5]}", text)


def main() -> int:
    """Write or check the pages and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing, and fail where a page is out of date")
    check = parser.parse_args().check
    stale = []
    for name, wanted in PAGES.items():
        page = ROOT / "docs" / name
        before = page.read_text(encoding="utf-8")
        after = generate(before, wanted)
        if after != before:
            stale.append(name)
            if not check:
                page.write_text(after, encoding="utf-8")
    for name, schema in command_schemas().items():
        path = SCHEMAS / f"{name}.json"
        text = json.dumps(schema, indent=0) + "\n"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(f"schemas/{name}.json")
            if not check:
                path.parent.mkdir(exist_ok=True)
                path.write_text(text, encoding="utf-8")
    if check and stale:
        print(
            f"out of date: {', '.join(f'docs/{name}' for name in stale)}; run scripts/generate_docs.py", file=sys.stderr
        )
        return 1
    print(f"written: {', '.join(stale) or 'nothing to do'}" if not check else "docs/ is as the registries say")
    return 0


if __name__ == "__main__":
    sys.exit(main())
