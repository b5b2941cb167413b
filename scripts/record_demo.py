#!/usr/bin/env python3
"""Record `nsysprof demo` in a terminal as docs/demo.svg: its text, which appears line by line as it did.

scripts/record_demo.py            write the recording
scripts/record_demo.py --check    write nothing; exit code 1 where the recording does not show what is printed now
"""

from __future__ import annotations

import argparse
import os
import pty
import re
import subprocess
import sys
import tempfile
import time
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RECORDING = ROOT / "docs" / "demo.svg"
COLUMNS, ROWS = 100, 34
_PROMPT = "$ nsysprof demo"
_STYLE = re.compile("\x1b\\[(\\d+)m(.*?)\x1b\\[0m")
_CONTROL = re.compile("\x1b\\[[0-9;?]*[A-Za-z]")
_CLASSES = {"1": "b", "36": "c", "31": "r", "33": "y", "32": "g"}
_LETTER, _LINE, _LEFT, _TOP = 7.83, 17, 14, 40


def run_demo() -> tuple[list[str], float]:
    """Return the lines that a terminal of COLUMNS shows, with their styles, and how long the demo took (s)."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "nsysprof", "demo", "--out", str(Path(folder) / "nsysprof-demo")]
        us, its = pty.openpty()
        environment = {**os.environ, "COLUMNS": str(COLUMNS), "TERM": "xterm-256color", "PYTHONPATH": str(ROOT)}
        environment.pop("NO_COLOR", None)
        begin = time.monotonic()
        process = subprocess.Popen(command, stdout=its, stderr=subprocess.DEVNULL, env=environment, cwd=folder)
        os.close(its)
        said = bytearray()
        while True:
            try:
                some = os.read(us, 1 << 16)
            except OSError:  # the other end is closed
                break
            if not some:
                break
            said += some
        os.close(us)
        if process.wait():
            raise SystemExit("nsysprof demo failed.")
        took = time.monotonic() - begin
    return said.decode("utf-8").replace("\r\n", "\n").split("\n"), took


def render(lines: list[str]) -> str:
    """Return the first ROWS lines as an SVG; each line appears a moment after the one before."""
    shown = lines[:ROWS]
    width, height = round(2 * _LEFT + COLUMNS * _LETTER), _TOP + _LINE * (len(shown) + 2)
    rows = [f'<text x="{_LEFT}" y="{_TOP}" class="b">{escape(_PROMPT)}</text>']
    for number, line in enumerate(shown, 1):
        if line:
            delay = f"animation-delay:{1.5 + 0.06 * number:.2f}s"
            rows.append(
                f'<text x="{_LEFT}" y="{_TOP + _LINE * number}" style="{delay}" class="l">{_spans(line)}</text>'
            )
    dots = "".join(f'<circle cx="{18 + 16 * at}" cy="14" r="5" fill="#3b424b"/>' for at in range(3))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">\n'
        "<title>nsysprof demo in a terminal: what a step of a training takes, and what to change</title>\n"
        "<style>text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#dfe5ec;white-space:pre}"
        ".l{opacity:0;animation:a .01s forwards}@keyframes a{to{opacity:1}}.b{font-weight:700;fill:#fff}"
        ".c{fill:#7fd5e6}.r{fill:#ff7b85}.y{fill:#f0b429}.g{fill:#6fdc8c}@media(prefers-reduced-motion){.l{opacity:1;animation:none}}"
        "</style>\n"
        f'<rect width="{width}" height="{height}" rx="8" fill="#14171b"/>{dots}\n' + "\n".join(rows) + "\n</svg>\n"
    )


def _spans(line: str) -> str:
    parts, last = [], 0
    for found in _STYLE.finditer(line):
        parts.append(escape(_CONTROL.sub("", line[last : found.start()])))
        parts.append(f'<tspan class="{_CLASSES[found[1]]}">{escape(found[2])}</tspan>')
        last = found.end()
    return "".join([*parts, escape(_CONTROL.sub("", line[last:]))])


def main() -> int:
    """Write or check the recording and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, and fail where it is out of date")
    check = parser.parse_args().check
    lines, took = run_demo()
    text = render(lines)
    if check:
        is_same = RECORDING.is_file() and RECORDING.read_text(encoding="utf-8") == text
        print("docs/demo.svg is up to date" if is_same else "docs/demo.svg is old; run scripts/record_demo.py")
        return 0 if is_same else 1
    RECORDING.write_text(text, encoding="utf-8")
    print(f"docs/demo.svg: {len(text):,} bytes; the demo took {took:.1f} s here")
    return 0


if __name__ == "__main__":
    sys.exit(main())
