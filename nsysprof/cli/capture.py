"""`nsysprof capture`: the grid, untraced and then under a profiler, into a capture folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nsysprof.case import DTYPES, PASSES, expand_grid, known_backends
from nsysprof.cli.machine import check_choice, default_dtypes, require_torch, settle_device
from nsysprof.cli.options import parse_names, parse_sizes
from nsysprof.errors import DataLossError, MissingToolError, OutputError, ToolFailedError, UsageError

if TYPE_CHECKING:
    from nsysprof.analysis.results import Analysis
    from nsysprof.capture.plan import CapturePlan, CountingPlan
    from nsysprof.capture.run import Captured
    from nsysprof.case import Case

_GRID = "Grid"
_MEASUREMENT = "Measurement"
_COUNTERS = "Hardware counters"
_PROGRAM = "A program instead of the grid"
_OUTPUT = "Output"
_FOR_BOTH = ("program", "nsys", "gpu_metrics", "gpu_metrics_frequency", "out", "force", "dry_run", "as_json")
_FOR_PROGRAMS = ("per_rank", "ranks", "trace", "capture_range", "delay", "duration", "end_program", "nsys_option")


def capture(
    context: typer.Context,
    program: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="-- PROGRAM [ARGUMENTS]",
            help="Record this program instead of measuring the grid.",
            show_default=False,
        ),
    ] = None,
    backends: Annotated[
        str, typer.Option(help=f"Of {', '.join(known_backends())}, or module:function.", rich_help_panel=_GRID)
    ] = "math,flash",
    seq: Annotated[str, typer.Option(help="Sequence lengths.", rich_help_panel=_GRID)] = "1024,2048,4096",
    batch: Annotated[str, typer.Option(help="Batch sizes.", rich_help_panel=_GRID)] = "1",
    heads: Annotated[str, typer.Option(help="Head counts.", rich_help_panel=_GRID)] = "8",
    kv_heads: Annotated[
        str, typer.Option(help="Heads of k and v, each a divisor of --heads. Default: as many.", rich_help_panel=_GRID)
    ] = "",
    head_dim: Annotated[str, typer.Option(help="Head dimensions.", rich_help_panel=_GRID)] = "64",
    dtype: Annotated[
        str,
        typer.Option(help=f"Of {', '.join(DTYPES)}. Default: fp16 on a GPU, fp32 on the CPU.", rich_help_panel=_GRID),
    ] = "",
    causal: Annotated[bool, typer.Option(help="Causal mask.", rich_help_panel=_GRID)] = True,
    pass_: Annotated[str, typer.Option("--pass", help=f"Of {', '.join(PASSES)}.", rich_help_panel=_GRID)] = "fwd",
    profiler: Annotated[
        str,
        typer.Option(
            help="auto, nsys, torch or none, and with ',ncu' a counted pass too. auto: nsys where there is one and a "
            "GPU, else torch's own.",
            rich_help_panel=_MEASUREMENT,
        ),
    ] = "auto",
    device: Annotated[str, typer.Option(help="auto, cuda or cpu.", rich_help_panel=_MEASUREMENT)] = "auto",
    samples: Annotated[int, typer.Option(help="Untraced samples a case.", rich_help_panel=_MEASUREMENT)] = 50,
    sample_seconds: Annotated[
        float,
        typer.Option(help="Take fewer samples (never under 10) than fit this time.", rich_help_panel=_MEASUREMENT),
    ] = 3.0,
    warmup: Annotated[int, typer.Option(help="Warm-up calls a case.", rich_help_panel=_MEASUREMENT)] = 10,
    traced_calls: Annotated[
        int, typer.Option(help="Calls inside each case's NVTX range.", rich_help_panel=_MEASUREMENT)
    ] = 10,
    case_timeout: Annotated[
        float, typer.Option(help="Seconds after which a case is given up.", rich_help_panel=_MEASUREMENT)
    ] = 300.0,
    check: Annotated[
        bool,
        typer.Option(help="Compare each backend with a float64 reference first.", rich_help_panel=_MEASUREMENT),
    ] = True,
    nsys: Annotated[Path | None, typer.Option(help="The nsys to use.", rich_help_panel=_MEASUREMENT)] = None,
    gpu_metrics: Annotated[
        bool, typer.Option("--gpu-metrics", help="Sample DRAM traffic under nsys.", rich_help_panel=_COUNTERS)
    ] = False,
    gpu_metrics_frequency: Annotated[int, typer.Option(help="Samples a second.", rich_help_panel=_COUNTERS)] = 10_000,
    metrics: Annotated[
        str, typer.Option(help="More metrics for ncu, e.g. smsp__inst_executed.sum.", rich_help_panel=_COUNTERS)
    ] = "",
    section: Annotated[
        str, typer.Option(help="Sections for ncu, into its report, e.g. SpeedOfLight.", rich_help_panel=_COUNTERS)
    ] = "",
    replay: Annotated[
        str,
        typer.Option(
            help="auto, kernel or application. auto: kernel, but application where memory has no room to save.",
            rich_help_panel=_COUNTERS,
        ),
    ] = "auto",
    count_kernels: Annotated[
        int, typer.Option(help="Kernels of a call that are counted at most.", rich_help_panel=_COUNTERS)
    ] = 200,
    ncu: Annotated[Path | None, typer.Option(help="The ncu to use.", rich_help_panel=_COUNTERS)] = None,
    per_rank: Annotated[
        bool,
        typer.Option("--per-rank", help="A trace for each worker of torchrun or accelerate.", rich_help_panel=_PROGRAM),
    ] = False,
    ranks: Annotated[str, typer.Option(help="Record these ranks alone, e.g. 0,8-11.", rich_help_panel=_PROGRAM)] = "",
    trace: Annotated[str, typer.Option(help="The APIs that nsys records.", rich_help_panel=_PROGRAM)] = "cuda,nvtx",
    capture_range: Annotated[
        str,
        typer.Option(help="Record cudaProfilerApi, or nvtx:NAME[@DOMAIN], alone.", rich_help_panel=_PROGRAM),
    ] = "none",
    delay: Annotated[int, typer.Option(help="Seconds before the recording.", rich_help_panel=_PROGRAM)] = 0,
    duration: Annotated[
        int, typer.Option(help="Seconds of the recording. 0: to the program's end.", rich_help_panel=_PROGRAM)
    ] = 0,
    end_program: Annotated[
        bool, typer.Option("--end-program", help="End the program with the recording.", rich_help_panel=_PROGRAM)
    ] = False,
    nsys_option: Annotated[
        list[str] | None,
        typer.Option(help="For nsys profile, e.g. --nsys-option=--sample=process-tree.", rich_help_panel=_PROGRAM),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Capture folder. Default: traces/DATE-TIME.", rich_help_panel=_OUTPUT),
    ] = None,
    force: Annotated[bool, typer.Option(help="Replace an older capture.", rich_help_panel=_OUTPUT)] = False,
    dry_run: Annotated[bool, typer.Option(help="Print the plan and stop.", rich_help_panel=_OUTPUT)] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout.", rich_help_panel=_OUTPUT)] = False,
) -> None:
    """Measure attention backends over a grid: untraced latency first, then launches and memory under a profiler.

    Latency and torch's peak memory come from the untraced pass; kernels, launches and copies from the traced one.
    With a PROGRAM: record it under nsys instead, in one trace or one a rank, and keep its output and exit status.
    """
    _check_options(context, is_program=bool(program))
    if program:
        from nsysprof.cli.program import capture_program

        capture_program(
            program,
            per_rank=per_rank,
            ranks=ranks,
            nsys=nsys,
            out=out,
            force=force,
            dry_run=dry_run,
            as_json=as_json,
            numbers=dict(
                trace=trace,
                capture_range=capture_range,
                delay_s=delay,
                duration_s=duration,
                end_program=end_program,
                gpu_metrics_hz=gpu_metrics_frequency if gpu_metrics else 0,
                nsys_options=tuple(nsys_option or ()),
            ),
        )
        return
    from nsysprof.capture.folder import dated_folder, prepare_folder

    profiler, counting = _split_profilers(profiler, metrics, section, replay, count_kernels)
    plan, nsys_path = _make_plan(
        grid=dict(
            backends=parse_names(backends),
            seqs=parse_sizes("--seq", seq),
            batches=parse_sizes("--batch", batch),
            heads=parse_sizes("--heads", heads),
            kv_heads=parse_sizes("--kv-heads", kv_heads),
            head_dims=parse_sizes("--head-dim", head_dim),
            causals=[causal],
            passes=parse_names(pass_),
        ),
        dtypes=parse_names(dtype),
        profiler=profiler,
        device=device,
        nsys=nsys,
        numbers=dict(
            samples=samples,
            sample_seconds=sample_seconds,
            warmup=warmup,
            traced_calls=traced_calls,
            case_timeout_s=case_timeout,
            check=check,
            gpu_metrics_hz=gpu_metrics_frequency if gpu_metrics else 0,
            counting=counting,
        ),
    )
    ncu_path = _find_ncu(ncu) if counting is not None else None
    folder = out or dated_folder()
    if dry_run:
        _print_plan(plan, folder, nsys_path, as_json)
        return
    prepare_folder(folder, force=force)
    captured = _run(plan, folder, nsys_path, ncu_path, fall_back=profiler == "auto", quiet=as_json)
    _finish(captured, folder, as_json)


def _check_options(context: typer.Context, *, is_program: bool) -> None:
    """Raises UsageError for an option of the grid with a program, or of a program without one."""
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if source is None or source.name != "COMMANDLINE" or name in _FOR_BOTH:
            continue
        if is_program and name not in _FOR_PROGRAMS:
            raise UsageError(
                f"{parameter.opts[0]} is of the grid, and a program was given.",
                "Leave it out; options of the program stand behind its name.",
            )
        if not is_program and name in _FOR_PROGRAMS:
            raise UsageError(
                f"{parameter.opts[0]} is for a program, and none was given.", "Add -- PROGRAM [ARGUMENTS]."
            )


def _split_profilers(
    profiler: str, metrics: str, section: str, replay: str, kernels: int
) -> tuple[str, CountingPlan | None]:
    """`nsys,ncu` is nsys with a counted pass, `ncu` that pass beside the latencies."""
    from nsysprof.capture.plan import PROFILERS, REPLAYS, CountingPlan

    names = parse_names(profiler)
    rest = [name for name in names if name != "ncu"]
    check_choice("--replay", replay, REPLAYS)
    if len(rest) > 1 or not names:
        raise UsageError(f"--profiler {profiler} names more than one tracer.", "Give one, and ',ncu' for counters.")
    check_choice("--profiler", rest[0] if rest else "none", PROFILERS)
    if "ncu" not in names:
        if metrics or section:
            raise UsageError("--metrics and --section are for ncu.", "Give --profiler nsys,ncu too.")
        return rest[0], None
    plan = CountingPlan(tuple(parse_names(metrics)), tuple(parse_names(section)), replay, kernels)
    return rest[0] if rest else "none", plan


def _find_ncu(named: Path | None) -> Path:
    from nsysprof.capture.find_ncu import find_ncu

    found = find_ncu(named)
    if found is None:
        raise MissingToolError(
            "--profiler ncu, but ncu was not found.", "Install Nsight Compute, or name it with --ncu or NSYSPROF_NCU."
        )
    return found


def _make_plan(
    grid: dict[str, Any],
    dtypes: list[str],
    profiler: str,
    device: str,
    nsys: Path | None,
    numbers: dict[str, Any],
) -> tuple[CapturePlan, Path | None]:
    from nsysprof.capture.find_nsys import find_nsys
    from nsysprof.capture.plan import DEVICES, PROFILERS, plan_capture
    from nsysprof.environment import collect_gpus, collect_host

    check_choice("--profiler", profiler, PROFILERS)
    check_choice("--device", device, DEVICES)
    cases_dtype = dtypes or ["fp16"]
    expand_grid(**grid, dtypes=cases_dtype)  # complain about the grid before looking at the machine
    require_torch("capture")
    settled_device = settle_device(device, profiler)
    if settled_device != "cuda" and (numbers["counting"] or numbers["gpu_metrics_hz"]):
        raise UsageError(
            "Hardware counters are a GPU's, and this capture is of the CPU.", "Leave out ncu and --gpu-metrics."
        )
    nsys_path = find_nsys(nsys) if profiler in ("auto", "nsys") else None
    settled = _settle_profiler(profiler, settled_device, nsys_path)
    if numbers["gpu_metrics_hz"] and settled != "nsys":
        raise UsageError(f"--gpu-metrics samples under nsys, and the tracer is {settled}.", "Give --profiler nsys.")
    if not dtypes:
        cases_dtype = default_dtypes(settled_device)
    memory = collect_gpus()[0]["memory_bytes"] if settled_device == "cuda" else collect_host()["memory_bytes"]
    plan = plan_capture(
        expand_grid(**grid, dtypes=cases_dtype),
        profiler=settled,
        device=settled_device,
        memory_bytes=memory,
        **numbers,
    )
    return plan, nsys_path


def _settle_profiler(profiler: str, device: str, nsys: Path | None) -> str:
    if profiler == "nsys" and nsys is None:
        raise MissingToolError(
            "--profiler nsys, but nsys was not found.",
            "Install Nsight Systems, or name it with --nsys or NSYSPROF_NSYS; --profiler torch works without.",
        )
    if profiler != "auto":
        return profiler
    return "nsys" if nsys is not None and device == "cuda" else "torch"


def _print_plan(plan: CapturePlan, folder: Path, nsys: Path | None, as_json: bool) -> None:
    ranges = [plan.range_of(case) for case in plan.cases]
    if as_json:
        cells = [{**case.to_json(), "range": name} for case, name in zip(plan.cases, ranges, strict=True)]
        data = {"profiler": plan.profiler, "device": plan.device, "out": str(folder), "cases": cells}
        typer.echo(json.dumps(data, indent=1))
        return
    using = f"{plan.profiler} ({nsys})" if plan.profiler == "nsys" else plan.profiler
    typer.echo(f"{len(plan.cases)} cases on {plan.device}, traced by {using}, into {folder}")
    typer.echo(
        f"each: {plan.warmup} warm-up calls, up to {plan.samples} untraced samples in {plan.sample_seconds:g} s, "
        f"{plan.traced_calls} traced calls"
        + (f" or {plan.traced_seconds:g} s, DRAM sampled at {plan.gpu_metrics_hz:,} Hz" if plan.gpu_metrics_hz else "")
        + (", one call counted by ncu" if plan.counting else "")
    )
    for case, name in zip(plan.cases, ranges, strict=True):
        typer.echo(
            f"  {name}  B={case.batch} H={case.heads}{_key_heads(case)} S={case.seq} D={case.head_dim} {case.dtype} "
            f"{'causal' if case.causal else 'full'} {case.pass_}"
        )


def _key_heads(case: Case) -> str:
    return "" if case.kv_heads is None else f" KV={case.kv_heads}"


def _run(
    plan: CapturePlan, folder: Path, nsys: Path | None, ncu: Path | None, *, fall_back: bool, quiet: bool
) -> Captured:
    from nsysprof.analysis.results import RESULT_COLUMNS
    from nsysprof.capture.run import run_capture
    from nsysprof.cli.progress import capture_progress

    with capture_progress(len(plan.cases), quiet=quiet) as on_progress:
        return run_capture(
            plan,
            folder,
            nsys=nsys,
            ncu=ncu,
            fall_back=fall_back,
            result_columns=RESULT_COLUMNS,
            on_progress=on_progress,
        )


def _finish(captured: Captured, folder: Path, as_json: bool) -> None:
    """Fill results.csv from the trace, say what the profiler lost, and tell the user where things are."""
    from nsysprof.capture.manifest import RESULTS, write_manifest
    from nsysprof.capture.run import interrupted_error
    from nsysprof.cli.console import print_results
    from nsysprof.notes import Severity
    from nsysprof.output import write_whole

    lost: list[Any] = []
    if captured.trace is not None:
        analysis = _analyze(captured.trace)
        results = _fill(folder, analysis, captured)
        write_whole(folder / RESULTS, results.to_csv(index=False, lineterminator="\n").encode())
        lost = [note for note in analysis.notes if note.severity is Severity.ERROR]
        captured.manifest.notes += lost
        write_manifest(folder, captured.manifest)
    print_results(folder, captured.manifest, as_json=as_json)
    if captured.interrupted:
        raise interrupted_error(folder, captured.progress)
    _complain_of_trace(captured, folder)
    if lost:
        raise DataLossError(lost[0].text, lost[0].next_step)


def _complain_of_trace(captured: Captured, folder: Path) -> None:
    """Raise when a trace was asked for and not one case is in it: the latencies are there, the rest is not."""
    measured = [outcome for outcome in captured.progress.outcomes if outcome.status == "ok"]
    if captured.manifest.profiler == "none" or any(outcome.traced == "ok" for outcome in measured):
        return
    reason = measured[0].traced_reason if measured else ""
    if "disk is full" in reason or "No space left" in reason:
        raise OutputError(f"No space left for the trace in {folder}; the latencies are kept.", "Free some space.")
    raise ToolFailedError(
        f"No case could be traced: {reason or 'the profiler recorded nothing'}. The latencies are kept in {folder}.",
        f"See {folder / 'logs'}; --profiler none captures latencies alone.",
    )


def _analyze(trace: Path) -> Analysis:
    from nsysprof.cli.analyze import analyze_trace

    return analyze_trace(trace)


def _fill(folder: Path, analysis: Analysis, captured: Captured) -> Any:
    from nsysprof.cli.counters import complete_analysis, name_kernels
    from nsysprof.cli.record import read_record

    assert captured.trace is not None
    name_kernels(folder, captured.trace)
    joined, record = complete_analysis(analysis, read_record(folder), captured.trace, folder=folder)
    captured.manifest.notes += joined.notes[len(analysis.notes) :]
    assert record is not None
    return record.results
