"""`nsysprof tune`: the best backend for each shape, within a budget of time, as a report and a policy file."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nsysprof.case import DTYPES, PASSES, expand_grid, known_backends
from nsysprof.cli.bench import command_line, method_lines, summarize
from nsysprof.cli.machine import check_choice, default_dtypes, require_torch, settle_device
from nsysprof.cli.options import parse_causal, parse_names, parse_sizes
from nsysprof.errors import CaptureFailedError, InterruptedCaptureError, OutputError, UsageError

if TYPE_CHECKING:
    import pandas as pd

    from nsysprof.analysis.bench import BenchResults
    from nsysprof.capture.bench import BenchRun
    from nsysprof.capture.bench_plan import BenchPlan

_GRID, _SEARCH, _OUTPUT = "Grid", "Search", "Output"
_SEARCHES = ("grid", "axes")
POLICY = "policy.json"


def tune(
    backends: Annotated[
        str,
        typer.Option(
            help=f"Of {', '.join(known_backends())}, or module:function. Default: all of torch's and auto.",
            rich_help_panel=_GRID,
        ),
    ] = "",
    seq: Annotated[str, typer.Option(help="Sequence lengths.", rich_help_panel=_GRID)] = "128,256,512,1024,2048",
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
    search: Annotated[
        str,
        typer.Option(
            help="grid: every combination; axes: one dimension at a time from the first of each list.",
            rich_help_panel=_SEARCH,
        ),
    ] = "grid",
    budget: Annotated[
        float, typer.Option(help="Seconds after which it ends with what it has.", rich_help_panel=_SEARCH)
    ] = 600.0,
    blocks: Annotated[
        int, typer.Option(help="Blocks of samples that the best backends of a shape get.", rich_help_panel=_SEARCH)
    ] = 12,
    samples: Annotated[int, typer.Option(help="Samples in a block.", rich_help_panel=_SEARCH)] = 10,
    warmup_seconds: Annotated[
        float, typer.Option(help="Longest warm-up before each block.", rich_help_panel=_SEARCH)
    ] = 0.5,
    seed: Annotated[
        int | None, typer.Option(help="Of the order. Default: a random one, printed.", rich_help_panel=_SEARCH)
    ] = None,
    flush: Annotated[
        bool, typer.Option("--flush/--warm-l2", help="Empty the caches before each sample.", rich_help_panel=_SEARCH)
    ] = True,
    check: Annotated[
        bool, typer.Option(help="Compare results with a float64 reference before timing.", rich_help_panel=_SEARCH)
    ] = True,
    device: Annotated[str, typer.Option(help="auto, cuda or cpu.", rich_help_panel=_SEARCH)] = "auto",
    case_timeout: Annotated[
        float, typer.Option(help="Seconds after which a block is given up.", rich_help_panel=_SEARCH)
    ] = 120.0,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder. Default: traces/tune-DATE-TIME.", rich_help_panel=_OUTPUT),
    ] = None,
    force: Annotated[bool, typer.Option(help="Replace an older tuning.", rich_help_panel=_OUTPUT)] = False,
    resume: Annotated[bool, typer.Option(help="Go on with the tuning in --out.", rich_help_panel=_OUTPUT)] = False,
    gpu_hour_price: Annotated[
        float | None, typer.Option(help="Adds what a million calls cost.", rich_help_panel=_OUTPUT)
    ] = None,
    db: Annotated[
        Path | None, typer.Option(help="Append the results to this SQLite database.", rich_help_panel=_OUTPUT)
    ] = None,
    dry_run: Annotated[bool, typer.Option(help="Print the cells and stop.", rich_help_panel=_OUTPUT)] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout.", rich_help_panel=_OUTPUT)] = False,
) -> None:
    """Find the fastest backend for each shape, or say that there is none, and write a policy that uses it.

    Backends far behind are dropped early; a winner needs a difference that holds, else it is a tie.
    """
    from nsysprof.capture.bench_plan import BenchPlan, check_plan
    from nsysprof.capture.tune import axes_grid

    check_choice("--search", search, _SEARCHES)
    check_choice("--device", device, ("auto", "cuda", "cpu"))
    _check_numbers(budget, blocks, gpu_hour_price)
    if resume and out is None:
        raise UsageError("--resume needs the folder to go on with.", "Name it with --out.")
    grid: dict[str, Any] = dict(
        seqs=parse_sizes("--seq", seq),
        batches=parse_sizes("--batch", batch),
        heads=parse_sizes("--heads", heads),
        kv_heads=parse_sizes("--kv-heads", kv_heads) if kv_heads else [],
        head_dims=parse_sizes("--head-dim", head_dim),
        causals=parse_causal(causal),
        passes=parse_names(pass_),
    )
    dtypes, names = parse_names(dtype), parse_names(backends)
    expand_grid(backends=names or ["math"], **grid, dtypes=dtypes or ["fp16"])
    require_torch("tune")
    settled = settle_device(device)
    names = names or (
        ["auto", "math", "flash", "efficient", "cudnn"] if settled == "cuda" else ["auto", "math", "flash"]
    )
    cases = expand_grid(backends=names, **grid, dtypes=dtypes or default_dtypes(settled))
    plan = BenchPlan(
        cases=tuple(cases if search == "grid" else axes_grid(cases, names)),
        device=settled,
        processes=1,
        rounds=blocks,
        samples=samples,
        warmup_seconds=warmup_seconds,
        sample_seconds=0.5,
        seed=random.SystemRandom().randrange(2**31) if seed is None else seed,
        flush=flush,
        check=check,
        graph="never",
        case_timeout_s=case_timeout,
    )
    check_plan(plan)
    folder = out or Path("traces") / f"tune-{datetime.now():%Y%m%d-%H%M%S}"
    if dry_run:
        typer.echo(f"{len(plan.cells)} cells on {plan.device}, {budget:g} s, seed {plan.seed}, into {folder}")
        for cell in range(len(plan.cells)):
            typer.echo(f"  {plan.name_of(cell)}")
        return
    run = _begin(plan, folder, force=force, resume=resume, db=db)
    finished = _search(run, folder, budget, blocks, quiet=as_json)
    results = _finish(run, folder, price=gpu_hour_price, budget=budget, db=db, as_json=as_json)
    if not finished:
        raise InterruptedCaptureError(
            f"Interrupted: {len(run.blocks)} blocks are kept in {folder}.", f"Go on with --resume --out {folder}."
        )
    if not results.table["median_ns"].notna().any():
        row = results.table.iloc[0]
        raise CaptureFailedError(
            f"None of {len(results.table)} cases could be measured. {row['status']}: {row['reason']}",
            f"Each case's reason is in {folder / 'results.csv'}.",
        )


def _check_numbers(budget: float, blocks: int, price: float | None) -> None:
    from nsysprof.analysis.significance import LEAST_BLOCKS

    if not budget > 0:
        raise UsageError(f"--budget {budget:g} is not a time.", "Give seconds above zero.")
    if blocks < LEAST_BLOCKS:
        raise UsageError(f"--blocks {blocks} is too few for a verdict.", f"Give at least {LEAST_BLOCKS}.")
    if price is not None and not price >= 0:
        raise UsageError(f"--gpu-hour-price {price:g} is not a price.", "Give zero or more.")


def _begin(plan: BenchPlan, folder: Path, *, force: bool, resume: bool, db: Path | None) -> BenchRun:
    """A new run, or the one in `folder` to go on with. Raises for a folder or database that will not do."""
    from nsysprof.capture.bench import SAMPLES, new_run, prepare_bench_folder, read_run

    if db is not None:
        from nsysprof.cli.database import check_database

        check_database(db)
    run = new_run(plan, "tune")
    if resume:
        run = read_run(folder / SAMPLES)
        if (run.kind, run.plan.cases, run.plan.device) != ("tune", plan.cases, plan.device):
            raise UsageError(f"{folder} holds a tuning of other cases.", "Give the options that it was begun with.")
        run.complete = False
    prepare_bench_folder(folder, force=force, keep=resume)
    return run


def _search(run: BenchRun, folder: Path, budget: float, blocks: int, *, quiet: bool) -> bool:
    from nsysprof.analysis.tune import cells_to_measure
    from nsysprof.capture.folder import remove_work
    from nsysprof.capture.tune import run_tuning

    begun_on = run.environment.get("comparable_hash")

    def choose(current: BenchRun) -> list[int]:
        now = current.environment.get("comparable_hash")
        if begun_on is not None and now != begun_on:
            raise OutputError(
                "This machine is not the one that the tuning was begun on: its GPU, driver or torch differ.",
                "Tune anew into another folder.",
            )
        return cells_to_measure(current.plan.cells, current.blocks, blocks)

    if not quiet:
        typer.echo(f"seed {run.plan.seed}", err=True)
    try:
        return run_tuning(run, folder, budget, choose, _progress(budget, quiet=quiet))
    finally:
        remove_work(folder)


def _progress(budget: float, *, quiet: bool) -> Callable[[BenchRun, int, int | None], None]:
    """A line every few seconds: blocks so far, those left of this step, and the time left."""
    begin, said = time.monotonic(), 0.0

    def show(run: BenchRun, left: int, cell: int | None) -> None:
        nonlocal said
        now = time.monotonic()
        if quiet or now < said + 5:
            return
        said = now
        name = "" if cell is None else f", now {run.plan.name_of(cell)}"
        rest = max(0.0, budget - (now - begin))
        typer.echo(f"  {len(run.blocks)} blocks, {left} left of this step{name}; {rest:.0f} s left at most", err=True)

    return show


def _finish(
    run: BenchRun, folder: Path, *, price: float | None, budget: float, db: Path | None, as_json: bool
) -> BenchResults:
    results = summarize(run)
    told = "" if run.complete else f"Ended by its budget of {budget:g} s, or by hand; --resume goes on."
    data, winners, lines = write_tuning(run, results, folder, command_line(), price=price, told=told)
    if db is not None:
        from nsysprof.cli.database import append_results

        append_results(db, run, results.table)
    _print(winners, lines, results, told, folder, data if as_json else None)
    return results


def write_tuning(
    run: BenchRun,
    results: BenchResults,
    folder: Path,
    command: str,
    *,
    price: float | None = None,
    told: str = "",
    figures: bool = True,
) -> tuple[dict[str, Any], pd.DataFrame, list[str]]:
    """Write everything that a tuning leaves beside its samples; returns results.json, the winners and the insights.

    command: what the user typed. told: why the search ended, if that is worth saying.
    """
    from nsysprof.analysis.tune import choose_backends, find_winners, insights
    from nsysprof.output import write_whole
    from nsysprof.report.bench import BenchReport, write_bench
    from nsysprof.report.tune import render_tuning

    winners = find_winners(results.table)
    choices = choose_backends(winners)
    lines = insights(results.table, winners, results.floor_pct)
    if figures:
        _draw(winners, folder / "winners.png")
    write_whole(folder / "winners.csv", winners.to_csv(index=False, lineterminator="\n").encode())
    policy = _write_policy(run, choices, folder / POLICY) if choices else None
    report = BenchReport(
        title=folder.resolve().name,
        table=results.table,
        floor_pct=results.floor_pct,
        floor_pairs=results.floor_pairs,
        ceilings=run.ceilings,
        environment=run.environment,
        notes=results.notes,
        method=[*method_lines(run.plan, results), _METHOD],
        command=command,
        extra=render_tuning(winners, lines, price=price, policy=policy, budget_note=told),
    )
    write_bench(report, folder, figures=figures)
    data = _as_json(run, results, winners, lines)
    write_whole(folder / "results.json", (json.dumps(data, indent=1) + "\n").encode())
    return data, winners, lines


def _draw(winners: pd.DataFrame, path: Path) -> None:
    import io

    from nsysprof.output import write_whole
    from nsysprof.report.tune import draw_winners

    figure = draw_winners(winners)
    if figure is not None:
        data = io.BytesIO()
        figure.savefig(data, format="png", metadata={"Software": None})
        write_whole(path, data.getvalue())


_METHOD = (
    "Search: successive halving by shape. After each process a backend is dropped when every block of it is more than "
    "1.5 times the best's, or the test calls it slower; the best two stay to the end. A shape has a winner where the "
    "test calls slower every other that stayed; else it is a tie, and the policy leaves the shape to torch where "
    "torch's own choice is part of the tie."
)


def _write_policy(run: BenchRun, choices: Any, path: Path) -> str:
    from nsysprof.cli.policy_file import write_choices

    write_choices(path, run, choices)
    return path.name


def _as_json(run: BenchRun, results: BenchResults, winners: pd.DataFrame, lines: list[str]) -> dict[str, Any]:
    return {
        "seed": run.plan.seed,
        "complete": run.complete,
        "floor_pct": results.floor_pct,
        "insights": lines,
        "winners": json.loads(winners.to_json(orient="records")),
        "cases": json.loads(results.table.to_json(orient="records")),
        "environment": run.environment,
        "notes": [asdict(note) for note in results.notes],
    }


def _print(
    winners: pd.DataFrame,
    lines: list[str],
    results: BenchResults,
    told: str,
    folder: Path,
    data: dict[str, Any] | None,
) -> None:
    if data is not None:
        typer.echo(json.dumps({"folder": str(folder), **data}, indent=1))
        return
    from nsysprof.report.console import render_table
    from nsysprof.report.tune import winner_table

    typer.echo(render_table(winner_table(winners), shutil.get_terminal_size((120, 40)).columns))
    for line in [*lines, told]:
        if line:
            typer.echo(line)
    for note in results.notes:
        typer.echo(f"{note.severity.value}: {note.text}" + (f" -> {note.next_step}" if note.next_step else ""))
    typer.echo(f"read {folder / 'report.md'}; use {folder / POLICY}")
