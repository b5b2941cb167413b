"""A capture folder that can be shared: the trace rebuilt and packed, our own files without user, host and folders."""

from __future__ import annotations

import json
import lzma
import shutil
from dataclasses import dataclass
from pathlib import Path

from nsysprof.bundle.sanitize import SanitizeReport, sanitize_trace
from nsysprof.bundle.sanitize_json import sanitize_csv, sanitize_json
from nsysprof.bundle.secret_values import collect_secrets, machine_secrets
from nsysprof.bundle.verify import SecretLeakError, find_leaks
from nsysprof.errors import OutputError, TraceError
from nsysprof.trace.open import open_trace

_TRACES = ("nsys.sqlite", "torch.sqlite")
_JSON = ("manifest.json", "samples.json")
_CSV = ("results.csv",)


@dataclass(frozen=True)
class SanitizedCapture:
    """The files written, and what the rebuild of each trace kept and dropped."""

    files: tuple[Path, ...]
    reports: tuple[SanitizeReport, ...]


def sanitize_capture(capture: Path, out: Path) -> SanitizedCapture:
    """Write the shareable part of a capture folder to the new folder `out`; logs and .nsys-rep stay behind.

    Raises TraceError when `capture` holds nothing to share, OutputError when `out` exists, SecretLeakError (with no
    folder left) when a private value would remain.
    """
    traces = [capture / name for name in _TRACES if (capture / name).is_file()]
    if not traces and not (capture / _JSON[0]).is_file():
        raise TraceError(f"{capture} is no capture folder: no trace and no manifest.", "Check the path.")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise OutputError(f"{out} exists and is not an empty folder.", "Choose another folder.")
    secrets = set(machine_secrets())
    for trace in traces:
        with open_trace(trace) as opened:
            secrets |= collect_secrets(opened.connection)
    try:
        out.mkdir(parents=True, exist_ok=True)
        reports = tuple(_pack_trace(trace, out) for trace in traces)
        _write_texts(capture, out, secrets)
    except OSError as error:
        shutil.rmtree(out, ignore_errors=True)
        raise OutputError(f"{out} cannot be written: {error.strerror or error}.", "Choose another folder.") from error
    except BaseException:
        shutil.rmtree(out, ignore_errors=True)
        raise
    return SanitizedCapture(tuple(sorted(out.iterdir())), reports)


def _pack_trace(trace: Path, out: Path) -> SanitizeReport:
    plain = out / trace.name
    report = sanitize_trace(trace, plain)
    with plain.open("rb") as source, lzma.open(out / f"{trace.name}.xz", "wb", preset=9) as packed:
        shutil.copyfileobj(source, packed)
    plain.unlink()
    return report


def _write_texts(capture: Path, out: Path, secrets: set[str]) -> None:
    for name in (*_JSON, *_CSV):
        source, target = capture / name, out / name
        if not source.is_file():
            continue
        try:
            text = source.read_text(encoding="utf-8")
            if name in _CSV:
                clean = sanitize_csv(text, secrets)
            else:
                clean = json.dumps(sanitize_json(json.loads(text), secrets), indent=1, ensure_ascii=False) + "\n"
        except ValueError as error:
            raise TraceError(f"{source} is damaged: {error}.", "Capture again.") from error
        target.write_text(clean, encoding="utf-8")
        leaks = find_leaks(target, secrets)
        if leaks:
            raise SecretLeakError(
                f"{name} cannot be sanitised: {len(leaks)} private values would remain: {'; '.join(leaks[:5])}.",
                "Nothing was written. Please report which field holds them.",
            )
