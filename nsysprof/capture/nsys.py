"""The command lines of nsys, and what its failures mean."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from nsysprof.capture.manifest import Step
from nsysprof.errors import ToolFailedError

# Every option whose default differs between versions is given: --kill and the capture range have changed before.
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

_MEANINGS = (
    (
        r"Unable to retrieve the importer version|libdw\.so",
        "nsys recorded but cannot import its own recording: a library it needs (libdw) is missing.",
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
        "Use nsys 2022.4 or newer (--nsys), and see what --nsys-option names.",
    ),
    (
        r"[Pp]ermission denied|Operation not permitted",
        "nsys was not permitted to profile.",
        "Check that the output folder and TMPDIR are writable, and perf_event_paranoid.",
    ),
    (
        r"Importation failed|Import Failed with unexpected exception",
        "nsys recorded the program, but its own importer failed on the recording.",
        "Run again: it happens where two nsys run at once. The recording is kept (.qdstrm): QdstrmImporter -i FILE.",
    ),
    (
        r"Local Endpoint is not available|Connection to Agent lost",
        "nsys could not reach its own agent.",
        "Run again: it happens where two nsys start at once.",
    ),
)


def profile_argv(nsys: Path, report: Path, program: list[str], more: Sequence[str] = ()) -> list[str]:
    """`nsys profile` of `program`, writing `report` (without suffix).

    more: options `--name=value` beside the usual ones, or in their place: nsys refuses an option given twice.
    """
    options = {option.partition("=")[0]: option for option in (*_PROFILE_OPTIONS, *more)}
    # nsys replaces %h, %p, %n and %q{...} in the name of its output.
    output = str(report).replace("%", "%%")
    return [str(nsys), "profile", *options.values(), f"--output={output}", *program]


def gpu_metrics_options(nsys: Path, frequency_hz: int) -> tuple[tuple[str, ...], str]:
    """The options that sample the counters of the visible GPUs; none, with the reason, where this nsys cannot.

    Until 2024.4 or so the option was in the singular and knew no `cuda-visible`.
    """
    said = ""
    for option, devices in (("--gpu-metrics-devices", "cuda-visible"), ("--gpu-metrics-device", "all")):
        try:
            done = subprocess.run(
                [str(nsys), "profile", f"{option}=help"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=120,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return (), f"nsys does not answer: {error}."
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
    """What nsys records into, and keeps where it could not make the report of it."""
    return report.with_suffix(".qdstrm")


def import_again(nsys: Path, report: Path, log: Path) -> Step | None:
    """Make `report` of the recording that nsys keeps beside it where its own importer failed; None where it keeps none.

    It fails now and then where two nsys run at once. The recording (.qdstrm) is removed once the report is there; its
    importer's words are appended to `log`.
    """
    recording = recording_of(report)
    places = nsys.resolve().parents[:3]
    importer = next((path for place in places for path in sorted(place.glob("*/QdstrmImporter"))), None)
    if importer is None or not recording.is_file():
        return None
    made = report.with_name(f"again-{report.name}")
    argv = [str(importer), f"--input-file={recording}", f"--output-file={made}", "--force-overwrite"]
    started = time.monotonic_ns()
    try:
        with log.open("ab") as stream:
            code = subprocess.run(
                argv, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, check=False
            ).returncode
    except OSError:
        return None
    if code == 0 and made.is_file() and made.stat().st_size:
        made.replace(report)
        recording.unlink()
    else:
        made.unlink(missing_ok=True)
    return Step("import again", tuple(argv), code, time.monotonic_ns() - started)


def export_argv(nsys: Path, report: Path, sqlite: Path) -> list[str]:
    """`nsys export` of a .nsys-rep into SQLite."""
    return [
        str(nsys), "export", "--type=sqlite", "--force-overwrite=true", f"--output={sqlite}", str(report),
    ]  # fmt: skip


def explain_failure(step: str, exit_code: int | None, log: str) -> ToolFailedError:
    """The error for a failed nsys step, with the cause recognised in its output where there is one."""
    for pattern, text, next_step in _MEANINGS:
        if re.search(pattern, log):
            return ToolFailedError(text, next_step)
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    said = next((line for line in reversed(lines) if re.search(r"rror|ailed|annot|No reports", line)), "")
    said = said or (lines[-1] if lines else "nothing")
    return ToolFailedError(
        f"nsys {step} failed (exit code {exit_code}). It said: {said[:300]}",
        "Its whole output is in the capture's logs. --profiler torch works without nsys.",
    )


def export_sqlite(nsys: Path, report: Path, sqlite: Path, log: Path) -> tuple[list[str], int]:
    """Export a report; returns the command and its exit code. Raises ToolFailedError when no SQLite came of it."""
    argv = export_argv(nsys, report, sqlite)
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False)
    text = done.stdout + done.stderr
    log.write_text(text, encoding="utf-8")
    if done.returncode != 0 or not sqlite.exists() or sqlite.stat().st_size == 0:
        raise explain_failure("export", done.returncode, text)
    return argv, done.returncode
