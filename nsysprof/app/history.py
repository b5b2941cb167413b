"""Run the use case `history`: how the latency of cases changed over the runs that `--db` collected."""

from __future__ import annotations

from dataclasses import dataclass

from nsysprof.app.inputs.refuse_url import refuse_url
from nsysprof.app.progress import SILENT, Progress
from nsysprof.app.read_history import is_results_database, read_history
from nsysprof.app.requests.reading import HistoryRequest
from nsysprof.errors import TraceError, UsageError
from nsysprof.results.latency_history import CaseHistory


def history(request: HistoryRequest, progress: Progress = SILENT) -> HistoryResult:
    """Return the cases of a results database whose names contain a text.

    Raises TraceError for a file that is not a results database, and UsageError where no case matches.
    """
    refuse_url(request.database)
    if not request.database.exists():
        raise TraceError(f"{request.database} does not exist.", "bench --db FILE and tune --db FILE make one.")
    if not is_results_database(request.database):
        raise TraceError(f"{request.database} is not a results database.", "Name the file of bench --db or tune --db.")
    progress.say("read the database")
    cases = read_history(request.database)
    chosen = tuple(case for case in cases if request.case.lower() in case.name.lower())
    if cases and not chosen:
        known = ", ".join(case.name for case in cases[:5])
        raise UsageError(f"No case has {request.case!r} in its name.", f"There are {len(cases)}: {known}.")
    return HistoryResult(request.database.name, chosen)


@dataclass(frozen=True)
class HistoryResult:
    """The cases of a database.

    name: the name of its file.
    """

    name: str
    cases: tuple[CaseHistory, ...]
