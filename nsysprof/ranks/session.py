"""Read what a trace says about its origin: its rank, its host, and when its session began."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from nsysprof.trace.columns import read_different, read_rows
from nsysprof.trace.open import Trace

# The variables in which launchers store the rank and the number of ranks over all hosts; the first one that is set
# counts.
_RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", "MV2_COMM_WORLD_RANK")
_WORLD_VARIABLES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", "MV2_COMM_WORLD_SIZE")
_NVTX_RANK = re.compile(r"^(?:global[ _-]?)?rank[ _:=-]*(\d{1,7})$", re.IGNORECASE)
_LONGEST_RANK_NAME = 31


@dataclass(frozen=True)
class Session:
    """What a trace records about its origin; None for what it does not record."""

    # When the session began (ns since 1970, UTC).
    start_utc_ns: int | None
    host: str | None
    rank: int | None
    # Where the rank comes from: environment or NVTX.
    rank_from: str
    world_size: int | None


def read_session(trace: Trace) -> Session:
    """Return the origin of an opened trace."""
    variables = _environment(trace)
    rank, rank_from = _number(variables, _RANK_VARIABLES), "environment"
    if rank is None:
        rank, rank_from = _rank_in_nvtx(trace), "NVTX"
    starts = {value for (value,) in read_rows(trace, "TARGET_INFO_SESSION_START_TIME", ("utcEpochNs",))}
    (start,) = starts if len(starts) == 1 else (None,)
    return Session(
        start_utc_ns=start if isinstance(start, int) and 0 < start < 2**62 else None,
        host=_host(trace),
        rank=rank,
        rank_from="" if rank is None else rank_from,
        world_size=_number(variables, _WORLD_VARIABLES),
    )


def _environment(trace: Trace) -> dict[str, str]:
    """Return the environment variables on which all traced processes agree, where nsys recorded them."""
    variables: dict[str, str | None] = {}
    for name, value in read_rows(trace, "META_DATA_CAPTURE", ("name", "value")):
        if isinstance(name, str) and isinstance(value, str) and name.rpartition(":")[2] == "ENVIRONMENT_VARIABLE":
            variable, _, text = value.partition("=")
            variables[variable] = text if variables.get(variable, text) == text else None
    return {variable: text for variable, text in variables.items() if text is not None}


def _number(variables: dict[str, str], names: tuple[str, ...]) -> int | None:
    texts = (variables.get(name, "") for name in names)
    return next((int(text) for text in texts if re.fullmatch(r"\d{1,7}", text, re.ASCII)), None)


def _rank_in_nvtx(trace: Trace) -> int | None:
    """Return the rank of a range, mark or thread named like `rank 3`, if all such names agree."""
    texts = read_different(trace, "NVTX_EVENTS", "text", longest=_LONGEST_RANK_NAME)
    ranks = {int(match[1]) for text in texts if (match := _NVTX_RANK.match(text))}
    return ranks.pop() if len(ranks) == 1 else None


def _host(trace: Trace) -> str | None:
    """Return a token for the host that does not reveal its name."""
    for name, value in read_rows(trace, "TARGET_INFO_SYSTEM_ENV", ("name", "value")):
        if isinstance(name, str) and isinstance(value, str) and name.lower() == "hostname" and value:
            return hashlib.sha256(value.encode("utf-8", "replace")).hexdigest()[:12]
    return None
