"""`nsysprof bench`: untraced latency of a grid with statistics that hold."""

from __future__ import annotations

import json
import random
import shlex
import shutil
import sys
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nsysprof.block import WARMUP_RULE
from nsysprof.case import DTYPES, PASSES, expand_grid, known_backends
from nsysprof.cli.machine import check_choice, default_dtypes, require_torch, settle_device
from nsysprof.cli.options import parse_causal, parse_names, parse_sizes
from nsysprof.errors import CaptureFailedError, InterruptedCaptureError

if TYPE_CHECKING:
    from nsysprof.analysis.bench import BenchResults
    from nsysprof.capture.bench import BenchRun
    from nsysprof.capture.bench_plan import BenchPlan

_GRID, _MEASUREMENT, _OUTPUT = "Grid", "Measurement", "Output"


def bench(
    backends: Annotated[
        str, typer.Option(help=f"Of {', '.join(known_backends())}, or module:function.", rich_help_panel=_GRID)
    ] = "math,flash",
    seq: Annotated[str, typer.Option(help="Sequence lengths.", rich_help_panel=_GRID)] = "1024,2048,4096",
    batch: Annotated[str, typer.Option(help="Batch sizes.", rich_help_panel=_GRID)] = "1",
    heads: Annotated[str, typer.Option(help="Head counts.", rich_help_panel=_GRID)] = "8",
    kv_heads: Annotated[
        str,
        typer.Option(help="Heads of k and v, for grouped queries. Default: as many as of q.", rich_help_panel=_GRID),
    ] = "",
    head_dim: Annotated[str, typer.Option(help="Head dimensions.", rich_help_panel=_GRID)] = "64",
    dtype: Annotated[
        str,
        typer.Option(help=f"Of {', '.join(DTYPES)}. Default: fp16 on a GPU, fp32 on the CPU.", rich_help_panel=_GRID),
    ] = "",
    causal: Annotated[str, typer.Option(help="yes, no or both.", rich_help_panel=_GRID)] = "yes",
    pass_: Annotated[str, typer.Option("--pass", help=f"Of {', '.join(PASSES)}.", rich_help_panel=_GRID)] = "fwd",
    processes: Annotated[int, typer.Option(help="Fresh processes.", rich_help_panel=_MEASUREMENT)] = 3,
    rounds: Annotated[
        int, typer.Option(help="Times each process goes through all cases.", rich_help_panel=_MEASUREMENT)
    ] = 5,
    samples: Annotated[int, typer.Option(help="Samples of a case in each round.", rich_help_panel=_MEASUREMENT)] = 10,
    sample_seconds: Annotated[
        float, typer.Option(help="Take fewer samples than fit this time.", rich_help_panel=_MEASUREMENT)
    ] = 1.0,
    warmup_seconds: Annotated[
        float, typer.Option(help="Longest warm-up before each round of a case.", rich_help_panel=_MEASUREMENT)
    ] = 1.0,
    seed: Annotated[
        int | None, typer.Option(help="Of the order. Default: a random one, printed.", rich_help_panel=_MEASUREMENT)
    ] = None,
    flush: Annotated[
        bool,
        typer.Option("--flush/--warm-l2", help="Empty the caches before each sample.", rich_help_panel=_MEASUREMENT),
    ] = True,
    graph: Annotated[
        str,
        typer.Option(
            help="Time CUDA graphs too: auto (where launching dominates), always, never.", rich_help_panel=_MEASUREMENT
        ),
    ] = "auto",
    check: Annotated[
        bool, typer.Option(help="Compare results with a float64 reference before timing.", rich_help_panel=_MEASUREMENT)
    ] = True,
    device: Annotated[str, typer.Option(help="auto, cuda or cpu.", rich_help_panel=_MEASUREMENT)] = "auto",
    case_timeout: Annotated[
        float, typer.Option(help="Seconds after which a round of a case is given up.", rich_help_panel=_MEASUREMENT)
    ] = 300.0,
    self_check: Annotated[
        bool,
        typer.Option(
            "--self-check", help="Measure each case against itself: this machine's noise.", rich_help_panel=_MEASUREMENT
        ),
    ] = False,
    copies: Annotated[
        int, typer.Option(help="With --self-check, how often each case is there.", rich_help_panel=_MEASUREMENT)
    ] = 2,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder. Default: traces/bench-DATE-TIME.", rich_help_panel=_OUTPUT),
    ] = None,
    force: Annotated[bool, typer.Option(help="Replace an older bench.", rich_help_panel=_OUTPUT)] = False,
    db: Annotated[
        Path | None, typer.Option(help="Append the results to this SQLite database.", rich_help_panel=_OUTPUT)
    ] = None,
    figures: Annotated[bool, typer.Option(help="Draw the figures.", rich_help_panel=_OUTPUT)] = True,
    dry_run: Annotated[bool, typer.Option(help="Print the plan and stop.", rich_help_panel=_OUTPUT)] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout.", rich_help_panel=_OUTPUT)] = False,
) -> None:
    """Time attention backends over a grid, untraced, with intervals and verdicts that hold.

    Cases are interleaved in random order over several processes; a difference counts only beyond the machine's noise.
    """
    from nsysprof.capture.bench_plan import BenchPlan, check_plan

    grid: dict[str, Any] = dict(
        backends=parse_names(backends),
        seqs=parse_sizes("--seq", seq),
        batches=parse_sizes("--batch", batch),
        heads=parse_sizes("--heads", heads),
        kv_heads=parse_sizes("--kv-heads", kv_heads) if kv_heads else [],
        head_dims=parse_sizes("--head-dim", head_dim),
        causals=parse_causal(causal),
        passes=parse_names(pass_),
    )
    dtypes = parse_names(dtype)
    expand_grid(**grid, dtypes=dtypes or ["fp16"])  # complain about the grid before looking at the machine
    check_choice("--device", device, ("auto", "cuda", "cpu"))
    require_torch("bench")
    settled = settle_device(device)
    plan = BenchPlan(
        cases=tuple(expand_grid(**grid, dtypes=dtypes or default_dtypes(settled))),
        device=settled,
        processes=processes,
        rounds=rounds,
        samples=samples,
        sample_seconds=sample_seconds,
        warmup_seconds=warmup_seconds,
        seed=random.SystemRandom().randrange(2**31) if seed is None else seed,
        flush=flush,
        check=check,
        graph=graph,
        copies=copies if self_check else 1,
        case_timeout_s=case_timeout,
    )
    check_plan(plan)
    folder = out or Path("traces") / f"bench-{datetime.now():%Y%m%d-%H%M%S}"
    if dry_run:
        _print_plan(plan, folder, as_json)
        return
    _measure(plan, folder, force=force, db=db, figures=figures, as_json=as_json)


def _print_plan(plan: BenchPlan, folder: Path, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({**plan.to_json(), "out": str(folder)}, indent=1))
        return
    blocks = plan.processes * plan.rounds
    typer.echo(
        f"{len(plan.cells)} cells on {plan.device}, each {blocks} times {plan.samples} samples in {plan.processes} "
        f"processes, seed {plan.seed}, into {folder}"
    )
    for cell in range(len(plan.cells)):
        typer.echo(f"  {plan.name_of(cell)}")


def _measure(plan: BenchPlan, folder: Path, *, force: bool, db: Path | None, figures: bool, as_json: bool) -> None:
    from nsysprof.capture.bench import new_run, prepare_bench_folder, run_bench
    from nsysprof.capture.folder import remove_work
    from nsysprof.cli.progress import block_progress
    from nsysprof.report.bench import write_bench

    if db is not None:
        from nsysprof.cli.database import check_database

        check_database(db)
    prepare_bench_folder(folder, force=force)
    run = new_run(plan)
    if not as_json:
        typer.echo(f"seed {plan.seed}", err=True)
    try:
        with block_progress(plan.processes * plan.rounds * len(plan.cells), quiet=as_json) as on_block:
            finished = run_bench(run, folder, on_block)
    finally:
        remove_work(folder)
    results = summarize(run)
    write_bench(report_of(run, results, folder), folder, figures=figures)
    if db is not None:
        from nsysprof.cli.database import append_results

        append_results(db, run, results.table)
    _print(run, results, folder, as_json)
    _complain(run, results, folder, finished)


def summarize(run: BenchRun) -> BenchResults:
    """The results of a run, whole or not."""
    from nsysprof.analysis.bench import summarize_bench

    plan = run.plan
    names = [plan.name_of(cell) for cell in range(len(plan.cells))]
    return summarize_bench(plan.cells, names, run.blocks, run.ceilings, run.environment, copies=plan.copies)


def report_of(run: BenchRun, results: BenchResults, folder: Path, command: str | None = None) -> Any:
    """The BenchReport of a run. command: what measured it, if that is not this command."""
    from nsysprof.report.bench import BenchReport

    return BenchReport(
        title=folder.resolve().name,
        table=results.table,
        floor_pct=results.floor_pct,
        floor_pairs=results.floor_pairs,
        ceilings=run.ceilings,
        environment=run.environment,
        notes=results.notes,
        method=method_lines(run.plan, results),
        command=command_line() if command is None else command,
        extra=_self_check_lines(run) if run.plan.copies > 1 else (),
    )


def command_line() -> str:
    """What the user typed, with paths reduced to their last part: reports get shared."""
    arguments = [f"{argument[: argument.find('=') + 1]}{Path(argument).name}" if "/" in argument else argument
                 for argument in sys.argv[1:]]  # fmt: skip
    return shlex.join(["nsysprof", *arguments])


def method_lines(plan: BenchPlan, results: BenchResults) -> list[str]:
    """How it was measured and judged, a line each."""
    from nsysprof.analysis import latency, significance
    from nsysprof.attention_work import CONVENTION

    caches = "caches emptied before each sample by writing four times the L2's size" if plan.flush else "caches warm"
    clock = (
        "one pair of CUDA events around each call" if plan.device == "cuda" else "a monotonic clock around each call"
    )
    floor = "unknown" if results.floor_pct is None else f"{results.floor_pct:.2f} % from {results.floor_pairs} pairs"
    return [
        f"Untraced; {clock}; {caches}; cases interleaved, in an order drawn from seed {plan.seed}; "
        f"{plan.processes} processes, {plan.rounds} rounds in each, up to {plan.samples} samples a round.",
        f"Warm-up before each round: {WARMUP_RULE.format(seconds=plan.warmup_seconds)}.",
        f"{latency.METHOD[0].upper()}{latency.METHOD[1:]}.",
        f"{significance.METHOD[0].upper()}{significance.METHOD[1:]}.",
        f"Noise floor: {floor}; the difference that 95 % of pairs of the same code stay below.",
        f"{CONVENTION}.",
    ]


def _self_check_lines(run: BenchRun) -> list[str]:
    from nsysprof.analysis.bench import check_self

    plan = run.plan
    found = check_self(run.blocks, len(plan.cells), plan.copies, None)
    if found.pairs == 0 or found.floor_pct is None:
        return ["Too few blocks for a self-check.", ""]
    return [
        f"**Self-check**: {found.pairs} pairs of the same code. Uncorrected p below 0.05 in {found.below_alpha} "
        f"({100 * found.below_alpha / found.pairs:.1f} %); called a difference: {found.alarms} "
        f"({100 * found.alarms / found.pairs:.1f} %). Noise floor {found.floor_pct:.2f} %.",
        "",
    ]


def _print(run: BenchRun, results: BenchResults, folder: Path, as_json: bool) -> None:
    if as_json:
        rows = json.loads(results.table.to_json(orient="records"))
        notes = [asdict(note) for note in results.notes]
        data = {"folder": str(folder), "seed": run.plan.seed, "floor_pct": results.floor_pct, "cases": rows}
        if run.plan.copies > 1:
            from nsysprof.analysis.bench import check_self

            data["self_check"] = asdict(check_self(run.blocks, len(run.plan.cells), run.plan.copies, None))
        typer.echo(json.dumps({**data, "notes": notes}, indent=1))
        return
    from nsysprof.report.console import render_bench

    width = shutil.get_terminal_size((120, 40)).columns
    typer.echo(render_bench(results.table, width=width))
    for line in _self_check_lines(run) if run.plan.copies > 1 else []:
        typer.echo(line.replace("**", ""))
    for note in results.notes:
        typer.echo(f"{note.severity.value}: {note.text}" + (f" -> {note.next_step}" if note.next_step else ""))
    floor = "unknown" if results.floor_pct is None else f"{results.floor_pct:.2f} %"
    typer.echo(f"noise floor {floor}; seed {run.plan.seed}; read {folder / 'report.md'}")


def _complain(run: BenchRun, results: BenchResults, folder: Path, finished: bool) -> None:
    if not finished:
        raise InterruptedCaptureError(
            f"Interrupted: {len(run.blocks)} blocks are kept in {folder}.",
            f"What they show is in {folder / 'report.md'}.",
        )
    if not (results.table["median_ns"].notna()).any():
        reasons = sorted({f"{row['status']}: {row['reason']}" for row in results.table.to_dict("records")})
        raise CaptureFailedError(
            f"None of {len(results.table)} cases could be measured. {reasons[0]}",
            f"Each case's reason is in {folder / 'results.csv'}.",
        )
