"""Start a server with `capture --hold`, send it requests, and record parts of it while it answers."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.captured_programs.outcome import ServerPart
from tests.captured_programs.trace_contents import TraceContents, read_contents

SERVER = Path(__file__).resolve().parents[2] / "scripts" / "programs" / "toy_server.py"
PATTERN = r"latency=(?P<ms>[\d.]+)"
WORKERS, LAYERS, CLIENTS = 2, 8, 4
PER_STEP = 2 * LAYERS + 1
_START_S, _END_S = 60.0, 60.0


def record_server(out: Path, *, parts: int = 2, seconds: int = 3) -> list[ServerPart]:
    """Return what each recording of a server under load has. Raises RuntimeError where the server does not start."""
    argv = [sys.executable, "-m", "nsysprof", "capture", "--hold", "--out", str(out), "--"]
    argv += [sys.executable, str(SERVER), "--workers", str(WORKERS), "--layers", str(LAYERS)]
    with (out.parent / "server.log").open("w") as log:
        holder = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        port = _await_port(out, holder)
        load = [sys.executable, str(SERVER), "--port", port, "--clients", str(CLIENTS), "--load"]
        client = subprocess.Popen([*load, str(parts * (4 * seconds + 15))], stdout=subprocess.DEVNULL)
        time.sleep(2)
        try:
            return [_record(out, seconds) for _ in range(parts)]
        finally:
            client.kill()
            client.wait()
    finally:
        holder.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            holder.wait(_END_S)
        holder.kill()


def _await_port(out: Path, holder: subprocess.Popen[bytes]) -> str:
    log, deadline = out / "logs" / "stdout.log", time.monotonic() + _START_S
    while time.monotonic() < deadline and holder.poll() is None:
        found = re.search(r"ready on port (\d+)", log.read_text(errors="replace")) if log.exists() else None
        if found:
            return found[1]
        time.sleep(0.2)
    raise RuntimeError("the server did not start; see server.log")


def _record(out: Path, seconds: int) -> ServerPart:
    argv = [sys.executable, "-m", "nsysprof", "record", str(out), "--duration", str(seconds), "--watch", str(seconds)]
    done = subprocess.run([*argv, "--step-pattern", PATTERN, "--json"], capture_output=True, text=True, check=False)
    said: dict[str, Any] = json.loads(done.stdout) if done.stdout.lstrip().startswith("{") else {}
    held = read_contents(Path(said["folder"]) / "nsys.sqlite") if "folder" in said else TraceContents()
    latency = said.get("latency") or {}
    ratio = latency.get("after_ratio") or (None, None, None)

    def median_ms(window: str) -> float | None:
        found = (latency.get(window) or {}).get("median_ns")
        return None if found is None else found / 1e6

    return ServerPart(
        steps=sum(count for name, count in held.ranges.items() if re.fullmatch(r"step \d+", name)),
        kernels=sum(held.kernels.values()),
        per_step=PER_STEP,
        workers=WORKERS,
        before_ms=median_ms("before"),
        during_ms=median_ms("during"),
        after_ms=median_ms("after"),
        survived=bool(said.get("survived")),
        exit_code=done.returncode,
        ratio=ratio[0],
        ratio_low=ratio[1],
        ratio_high=ratio[2],
    )
