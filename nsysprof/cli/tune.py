"""Define `nsysprof tune`: find the fastest backend for each shape, or a tie, and a policy that uses it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from nsysprof.app.inputs.request_limits import LEAST_TUNING_BLOCKS
from nsysprof.cli import options
from nsysprof.cli.measuring.measurement import run_measurement
from nsysprof.cli.terminal.console import print_json
from nsysprof.errors import UsageError
from nsysprof.files.json_file import json_value

if TYPE_CHECKING:
    from nsysprof.app.tune import TuneRequest, TuneResult

EXAMPLES = (
    "nsysprof tune --seq 256,1024,4096 --head-dim 64,128",
    "nsysprof tune --backends auto,flash,cudnn --dtype bf16 --budget 1800 --out tuned",
    "nsysprof tune --from traces/train --budget 300    # the shapes of a program: capture --attention",
    "nsysprof tune --resume --out tuned    # with the options of its first run",
)
_SEARCH = "Search"
_OF_GRID = ("seq", "batch", "heads", "kv_heads", "head_dim", "dtype", "causal", "pass_", "search")

Search = Annotated[
    Literal["grid", "axes"],
    typer.Option(
        help="grid: every combination; axes: one dimension at a time, from the first value of each list.",
        rich_help_panel=_SEARCH,
    ),
]
From = Annotated[
    Path | None,
    typer.Option(
        "--from",
        help="Tune the shapes of a program instead of a grid: give a capture with --attention, or its analysis.",
        rich_help_panel=_SEARCH,
    ),
]
Blocks = Annotated[
    int,
    typer.Option(
        min=LEAST_TUNING_BLOCKS,
        help="Number of blocks of samples for the best backends of a shape.",
        rich_help_panel=_SEARCH,
    ),
]
GpuHourPrice = Annotated[
    float | None,
    typer.Option(
        min=0, help="Price of one GPU hour, to add what a million calls cost.", rich_help_panel=options.OUTPUT
    ),
]


def tune(
    context: typer.Context,
    source: From = None,
    backends: options.Backends = "",
    seq: options.Seq = "128,256,512,1024,2048",
    batch: options.Batch = "1",
    heads: options.Heads = "8",
    kv_heads: options.KvHeads = "",
    head_dim: options.HeadDim = "64",
    dtype: options.Dtype = "",
    causal: options.Causal = "yes",
    pass_: options.Pass = "fwd",
    search: Search = "grid",
    budget: options.Budget = 600.0,
    blocks: Blocks = 12,
    samples: options.Samples = 10,
    warmup_seconds: options.WarmupSeconds = 0.5,
    seed: options.Seed = None,
    flush: options.Flush = True,
    check: options.Check = True,
    device: options.Device = "auto",
    case_timeout: options.CaseTimeout = 120.0,
    out: Annotated[Path | None, options.out_option("Folder. Default: traces/tune-DATE-TIME.")] = None,
    force: options.Force = False,
    resume: options.Resume = False,
    gpu_hour_price: GpuHourPrice = None,
    db: options.Database = None,
    figures: options.Figures = True,
    dry_run: options.DryRun = False,
    as_json: options.Json = False,
) -> None:
    """Find the fastest backend for each shape, or say that there is none, and write a policy that uses it.

    Backends far behind are dropped early; a winner needs a difference that holds, else it is a tie. Without --backends
    it tries all of torch's own that suit the device, and torch's own choice (auto).
    """
    from nsysprof.app import tune as use_case

    if source is not None:
        _check_options(context)
    request = use_case.TuneRequest(
        grid=options.parse_grid(backends, seq, batch, heads, kv_heads, head_dim, dtype, causal, pass_),
        source=source,
        search=search,
        budget_s=budget,
        blocks=blocks,
        samples=samples,
        warmup_seconds=warmup_seconds,
        seed=seed,
        flush=flush,
        check=check,
        device=device,
        case_timeout_s=case_timeout,
        out=out,
        force=force,
        resume=resume,
        gpu_hour_price=gpu_hour_price,
        db=db,
        figures=figures,
        command=options.command_line(),
    )
    run_measurement(
        request, use_case.tune, print_plan=_print_plan, print_result=_print, dry_run=dry_run, as_json=as_json
    )


def _check_options(context: typer.Context) -> None:
    """Raise UsageError for an option of the grid where a program provides the shapes."""
    for parameter in context.command.params:
        if parameter.name in _OF_GRID and options.is_given(context, parameter.name or ""):
            raise UsageError(
                f"{parameter.opts[0]} is an option of the grid, but --from uses the shapes of a program.",
                "Leave it out.",
            )


def _print_plan(request: TuneRequest, as_json: bool) -> None:
    from nsysprof.app.measuring.bench import dated_bench_folder
    from nsysprof.app.tune import plan_tuning

    plan, folder = plan_tuning(request), request.out or dated_bench_folder("tune")
    if as_json:
        print_json({**json_value(plan), "budget_s": request.budget_s, "out": str(folder)})
        return
    typer.echo(f"{len(plan.cells)} cells on {plan.device}, {request.budget_s:g} s, seed {plan.seed}, into {folder}")
    for cell in range(len(plan.cells)):
        typer.echo(f"  {plan.name_of(cell)}")


def _print(result: TuneResult, as_json: bool) -> None:
    if as_json:
        print_json({"folder": str(result.folder), **result.tuning.data})
        return
    from nsysprof.cli.terminal.console import print_report
    from nsysprof.report.pages.tune import tuning_report, tuning_sections

    tuning = result.tuning
    sections = tuning_sections(tuning.winners, tuning.insights, price=None, policy=None, budget_note=result.told)
    print_report(tuning_report(sections, result.results.notes))
    use = "" if result.tuning.policy is None else f"; use {result.tuning.policy}"
    typer.echo(f"read {result.folder / 'report.md'}{use}")
