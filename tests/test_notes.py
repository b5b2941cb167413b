"""Every note that can be printed of a trace is explained."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
# A code is two words at the least; first in a Note, or the key or first of a row in a table of notes.
CODE = re.compile(r"""(?:Note\(\s*|^\s+|^\s+\(\s*)"([a-z]+(?:-[a-z]+)+)"[,:]""", re.MULTILINE)


def test_every_code_of_a_note_on_a_trace_is_in_the_documentation():
    codes = set()
    for folder in ("trace", "analysis", "ranks"):
        for path in sorted((ROOT / "nsysprof" / folder).glob("*.py")):
            codes |= set(CODE.findall(path.read_text(encoding="utf-8")))
    assert {"no-calls", "open-ranges", "events-lost", "being-written", "dram-gaps"} <= codes
    pages = ("analyze.md", "bench.md", "compare.md", "counters.md", "program.md", "ranks.md")
    texts = "".join((ROOT / "docs" / page).read_text(encoding="utf-8") for page in pages)
    documented = set(re.findall(r"`([a-z-]+)`", texts))
    assert codes - documented == set()


def test_every_code_of_a_note_on_a_capture_of_a_program_is_in_its_page():
    names = ("program", "record_program", "rank_record")
    texts = "".join((ROOT / "nsysprof" / "capture" / f"{name}.py").read_text(encoding="utf-8") for name in names)
    codes = set(CODE.findall(texts))
    assert {"rank-without-trace", "little-space", "mixed-machines", "gpu-metrics-failed"} <= codes
    page = (ROOT / "docs" / "program.md").read_text(encoding="utf-8")
    assert codes - set(re.findall(r"`([a-z-]+)`", page)) == set()
