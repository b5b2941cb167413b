"""Control a session of nsys: launch a program in it without recording, then start and stop recordings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from nsysprof.errors import ToolFailedError
from nsysprof.nsight.run_tool import run_tool

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
