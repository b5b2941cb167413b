"""Choose the options of nsys for a recording, by what was tried on this machine for this nsys, driver and GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from nsysprof.capture.self_check.probe import choose_options, run_ladder
from nsysprof.capture.self_check.probe_cache import probe_key, read_probes, write_probes
from nsysprof.notes import Note, make_note
from nsysprof.results.checks import ProbeResult, ProbeVerdict


def settle_options(
    nsys: Path, environment: Mapping[str, Any], say: Callable[[str], None], *, may_try: bool
) -> tuple[tuple[str, ...], list[Note]]:
    """Return the options that replace the usual ones on this machine (often none), and notes about them.

    environment: the manifest's, with the GPUs and the versions of nsys and the driver.
    may_try: whether to try the options now where nothing is known about this machine.
    """
    if not environment.get("gpu_count"):
        return (), []
    results = known_probes(nsys, environment, say, may_try=may_try)
    options, usual = choose_options(results)
    if usual is None:
        return (), []
    if not options:
        return (), [make_note("probe-lost", "always", found=usual.text)]
    return options, [make_note("probe-lost", found=usual.text, options=" ".join(options))]


def known_probes(
    nsys: Path, environment: Mapping[str, Any], say: Callable[[str], None], *, may_try: bool
) -> tuple[ProbeResult, ...]:
    """Return the results for this machine: the stored ones, or else those of new trials, which are then stored."""
    key = key_of(environment)
    results = read_probes(key)
    if results or not may_try:
        return results
    results = run_ladder(nsys, say)
    if all(each.verdict is not ProbeVerdict.UNKNOWN for each in results):
        write_probes(key, results)
    return results


def key_of(environment: Mapping[str, Any]) -> str:
    """Return the key of results from a manifest's environment."""
    names = str(environment.get("gpu_name") or "").split(", ")
    return probe_key(environment.get("nsys_version"), environment.get("driver_version"), tuple(names))
