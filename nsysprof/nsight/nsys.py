"""Run nsys: build its command lines, export to SQLite, and explain its failures."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

from nsysprof.errors import ToolFailedError
from nsysprof.nsight.run_tool import Step, run_showing, run_tool

# Every option is given whose default differs between versions; --kill and the capture range have changed before.
_PROFILE_OPTIONS = (
    "--trace=cuda,nvtx",
    "--sample=none",
    "--cpuctxsw=none",
    "--cuda-memory-usage=true",
    "--cuda-graph-trace=node",
    "--cuda-flush-interval=1000",
    "--capture-range=none",
    "--kill=none",
    "--wait=all",
    "--stats=false",
    "--force-overwrite=true",
)

_HELP_S = 120.0
_MEANINGS = (
    (
        r"Unable to retrieve the importer version|libdw\.so",
        "nsys cannot import recordings: a library it needs (libdw) is missing.",
        "Install it (Debian and Ubuntu: apt-get install libdw1), then run again.",
    ),
    (
        r"[Nn]o space left on device",
        "nsys ran out of disk space.",
        "Free some space, or choose another disk with --out and TMPDIR.",
    ),
    (
        r"unrecognised option|unrecognized option|Illegal --",
        "This nsys does not know one of the options.",
        "Use nsys 2022.4 or newer (--nsys), and check the options in --nsys-option.",
    ),
    (
        r"[Pp]ermission denied|Operation not permitted",
        "nsys was not permitted to profile.",
        "Check that the output folder and TMPDIR are writable, and perf_event_paranoid.",
    ),
    (
        r"Importation failed|Import Failed with unexpected exception",
        "nsys recorded the program, but its own importer failed on the recording.",
        "Run again: this happens when two nsys run at once. The recording is kept (.qdstrm): QdstrmImporter -i FILE.",
    ),
    (
        r"Local Endpoint is not available|Connection to Agent lost",
        "nsys could not reach its own agent.",
        "Run again: this happens when two nsys start at once.",
    ),
)
# Options that nsys accepts when a recording starts. All others belong to the launch of the program.
_OF_START = (
    "--sample", "--cpuctxsw", "--backtrace", "--samples-per-backtrace", "--sampling-period", "--cpu-core-events",
    "--cpu-core-metrics", "--event-sample", "--event-sampling-interval", "--os-events", "--ftrace", "--gpuctxsw",
    "--gpu-metrics-device", "--gpu-metrics-devices", "--gpu-metrics-frequency", "--gpu-metrics-set", "--nic-metrics",
    "--ib-switch-metrics-device",
)  # fmt: skip
_LAUNCH_OPTIONS = (
    "--trace=cuda,nvtx",
    "--cuda-memory-usage=true",
    "--cuda-graph-trace=node",
    "--cuda-flush-interval=1000",
    "--wait=all",
)
_START_OPTIONS = ("--sample=none", "--cpuctxsw=none", "--force-overwrite=true", "--stop-on-exit=true")
_ANSWER_S = 60.0
_REPORT_S = 120.0  # how long nsys may write a report after its program has ended (s)
_LOOK_S = 0.5


def profile_argv(nsys: Path, report: Path, program: list[str], more: Sequence[str] = ()) -> list[str]:
    """Return the command line that records `program` into `report` (a path without suffix).

    more: further options `--name=value`. An option of the same name replaces ours, because nsys refuses an option that
        is given twice.
    """
    options = merge_options(more)
    # nsys replaces %h, %p, %n and %q{...} in the name of its output.
    output = str(report).replace("%", "%%")
    return [str(nsys), "profile", *options.values(), f"--output={output}", *program]


def merge_options(more: Sequence[str]) -> dict[str, str]:
    """Return the options of a recording by name: ours, with those in `more` replacing ours of the same name."""
    return {option.partition("=")[0]: option for option in (*_PROFILE_OPTIONS, *more)}


def knows_software_trace(nsys: Path) -> bool:
    """Return whether this nsys can trace CUDA only in software (`--trace=cuda-sw`)."""
    try:
        done = run_tool([str(nsys), "profile", "--help"], timeout_s=_HELP_S)
    except ToolFailedError:
        return False
    return "cuda-sw" in done.stdout + done.stderr


def gpu_metrics_options(nsys: Path, frequency_hz: int) -> tuple[tuple[str, ...], str]:
    """Return the options that sample counters of the visible GPUs; none, with the reason, where nsys cannot.

    frequency_hz: samples per second. Until about 2024.4 the option was in the singular and had no `cuda-visible`.
    """
    said = ""
    for option, devices in (("--gpu-metrics-devices", "cuda-visible"), ("--gpu-metrics-device", "all")):
        try:
            done = run_tool([str(nsys), "profile", f"{option}=help"], timeout_s=_HELP_S)
        except ToolFailedError as error:
            return (), error.text
        said = done.stdout + done.stderr
        if done.returncode == 0:
            if re.search(r"ERR_NVGPUCTRPERM|nsufficient privilege|ermission", said):
                return (), "the driver does not permit reading hardware counters (ERR_NVGPUCTRPERM)."
            if re.search(r"not available|not found|not supported", said):
                return (), f"nsys says: {_last_words(said)}"
            return (f"{option}={devices}", f"--gpu-metrics-frequency={frequency_hz}"), ""
    return (), f"this nsys has no GPU metrics: {_last_words(said)}"


def _last_words(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "nothing"


def recording_of(report: Path) -> Path:
    """Return the file into which nsys records. nsys keeps it when it cannot make the report from it."""
    return report.with_suffix(".qdstrm")


def import_again(nsys: Path, report: Path, log: Path) -> Step | None:
    """Make `report` from the recording beside it after nsys' own importer failed; None when there is no recording.

    The importer sometimes fails when two nsys run at once. The recording (.qdstrm) is removed once the report exists.
    What the importer prints is appended to `log`.
    """
    recording = recording_of(report)
    places = nsys.resolve().parents[:3]
    importer = next((path for place in places for path in sorted(place.glob("*/QdstrmImporter"))), None)
    if importer is None or not recording.is_file():
        return None
    imported = report.with_name(f"again-{report.name}")
    argv = [str(importer), f"--input-file={recording}", f"--output-file={imported}", "--force-overwrite"]
    started = time.monotonic_ns()
    try:
        with log.open("ab") as stream:
            done = run_tool(argv)
            stream.write((done.stdout + done.stderr).encode())
    except (ToolFailedError, OSError):
        return None
    if done.returncode == 0 and imported.is_file() and imported.stat().st_size:
        imported.replace(report)
        recording.unlink()
    else:
        imported.unlink(missing_ok=True)
    return Step("import again", tuple(argv), done.returncode, time.monotonic_ns() - started)


def run_export(
    nsys: Path,
    report: Path,
    sqlite: Path,
    *,
    log: Path | None = None,
    timeout_s: float | None = None,
    say: Callable[[str], None] | None = None,
    is_shielded: bool = False,
) -> tuple[Step, ToolFailedError | None]:
    """Export a .nsys-rep to an SQLite file; return the step, and the reason when it failed (None: it succeeded).

    log: a file that receives what nsys printed.
    timeout_s: how long to wait for nsys (s); None waits without limit.
    say: called with the progress of a long export, which then has no time limit.
    is_shielded: whether Ctrl-C in a terminal reaches this process alone; without `say` only.
    """
    more = ["--include-blobs=true"] if _knows_blobs(nsys) else []
    argv = [str(nsys), "export", "--type=sqlite", "--force-overwrite=true", *more, f"--output={sqlite}", str(report)]
    started = time.monotonic_ns()
    code, failure = None, None
    try:
        title = f"export {report.name}"
        if say is None:
            done = run_tool(argv, timeout_s=timeout_s, is_shielded=is_shielded)
        else:
            done = run_showing(argv, say, title)
    except ToolFailedError as error:
        failure = error
    else:
        code, said = done.returncode, done.stdout + done.stderr
        if log is not None:
            log.write_text(said, encoding="utf-8")
        if code != 0 or not sqlite.exists() or sqlite.stat().st_size == 0:
            failure = explain_export_failure(nsys, report, code, said)
    return Step("export", tuple(argv), code, time.monotonic_ns() - started), failure


@cache
def _knows_blobs(nsys: Path) -> bool:
    """Return whether this nsys exports the payloads of NVTX ranges only on request, as 2025.3 does."""
    try:
        done = run_tool([str(nsys), "export", "--help"], timeout_s=_HELP_S)
    except ToolFailedError:
        return False
    return "--include-blobs" in done.stdout + done.stderr


def explain_export_failure(nsys: Path, report: Path, exit_code: int, said: str) -> ToolFailedError:
    """Return the error for a failed export, with the cause where it is recognised in what nsys printed."""
    if re.search(r"newer|unsupported version|incompatible|Unknown (report|file) version", said, re.IGNORECASE):
        return ToolFailedError(
            f"{report} was written by a newer nsys than {nsys}.", "Name the nsys that wrote it with --nsys."
        )
    known = _recognise(said)
    if known is not None:
        return known
    return ToolFailedError(
        f"nsys could not export {report} (exit code {exit_code}). It said: {_telling_line(said)}",
        "Check that the report is complete.",
    )


def explain_profile_failure(exit_code: int | None, log: str) -> ToolFailedError:
    """Return the error for a failed recording, with the cause where it is recognised in nsys' output."""
    return _recognise(log) or ToolFailedError(
        f"nsys profile failed (exit code {exit_code}). It said: {_telling_line(log)}",
        "Its whole output is in the capture's logs. --profiler torch works without nsys.",
    )


def _recognise(said: str) -> ToolFailedError | None:
    for pattern, text, next_step in _MEANINGS:
        if re.search(pattern, said):
            return ToolFailedError(text, next_step)
    return None


def _telling_line(said: str) -> str:
    """Return the last line that mentions a failure, or else the last one that is not a progress bar."""
    lines = [line.strip() for line in said.splitlines() if line.strip() and "%" not in line]
    last = next((line for line in reversed(lines) if re.search(r"rror|ailed|annot|No reports", line)), "")
    return (last or (lines[-1] if lines else "nothing"))[:300]


def launch_argv(nsys: Path, session: str, program: list[str], more: Sequence[str] = ()) -> list[str]:
    """Return the command line that launches `program` in a new session, which records nothing yet.

    more: options `--name=value`; one of the same name replaces ours, and those of a recording are left out.
    """
    chosen = [option for option in more if not _is_of_start(option)]
    return [str(nsys), "launch", f"--session-new={session}", *_merge(_LAUNCH_OPTIONS, chosen), *program]


def start_options(more: Sequence[str]) -> tuple[str, ...]:
    """Return the options of each recording: ours, and those among `more` that belong to a recording."""
    return _merge(_START_OPTIONS, [option for option in more if _is_of_start(option)])


def list_sessions(nsys: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the state of each session of this user, by its name. Raises ToolFailedError."""
    done = run_tool([str(nsys), "sessions", "list"], timeout_s=_ANSWER_S, environment=environment)
    rows = re.findall(r"^\s*\d+\s+\S+\s+(\S+)\s+\d+\s+(.+?)\s*$", done.stdout, re.MULTILINE)
    return {name: state for state, name in rows}


def start_recording(
    nsys: Path, session: str, report: Path, options: Sequence[str], environment: Mapping[str, str]
) -> None:
    """Start a recording into `report` (a path without suffix). Raises ToolFailedError.

    `nsys start` of a session that does not exist makes a new one, with nothing in it; so it is looked for first.
    """
    if session not in list_sessions(nsys, environment):
        raise ToolFailedError(
            "nsys has no session for the held program any more.", "The program has ended; start it again."
        )
    output = str(report).replace("%", "%%")
    argv = [str(nsys), "start", f"--session={session}", *options, f"--output={output}"]
    _run(argv, "start the recording", environment, _ANSWER_S)


def is_recording(nsys: Path, session: str, environment: Mapping[str, str]) -> bool:
    """Return whether a session records at this moment. Raises ToolFailedError."""
    return "Collection" in list_sessions(nsys, environment).get(session, "")


def stop_recording(nsys: Path, session: str, environment: Mapping[str, str]) -> None:
    """Stop the recording of a session, and return once nsys has written its report. Raises ToolFailedError."""
    argv = [str(nsys), "stop", f"--session={session}"]
    _run(argv, "stop the recording", environment, None, is_shielded=True)


def await_report(report: Path) -> bool:
    """Wait until the report of a program that has ended, or was killed, stops growing. Return whether it did in time.

    nsys runs longer than the program.
    """
    deadline, size = time.monotonic() + _REPORT_S, -1
    while time.monotonic() < deadline:
        before, size = size, report.stat().st_size if report.exists() else -1
        if size == before and size > 0:
            return True
        time.sleep(_LOOK_S)
    return False


def _run(
    argv: list[str], what: str, environment: Mapping[str, str], timeout_s: float | None, *, is_shielded: bool = False
) -> None:
    done = run_tool(argv, timeout_s=timeout_s, environment=environment, is_shielded=is_shielded)
    if done.returncode != 0:
        lines = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        said = lines[-1][:300] if lines else "nothing"
        raise ToolFailedError(
            f"nsys could not {what} (exit code {done.returncode}). It said: {said}",
            "Check that the held program is running, and that no other recording of it is.",
        )


def _is_of_start(option: str) -> bool:
    return option.partition("=")[0] in _OF_START


def _merge(ours: Sequence[str], more: Sequence[str]) -> tuple[str, ...]:
    return tuple({option.partition("=")[0]: option for option in (*ours, *more)}.values())
