"""The examples of the documentation do what it says of them."""

import re
import warnings
from pathlib import Path

ROOT = Path(__file__).parents[1]


def blocks(name):
    return re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / name).read_text(encoding="utf-8"), re.M | re.S)


def test_the_python_example_runs_from_top_to_bottom(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    scope = {"__name__": "docs"}
    found = blocks("python.md")
    assert len(found) >= 12
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number, code in enumerate(found):
            exec(compile(code, f"docs/python.md, block {number}", "exec"), scope)
    import matplotlib.pyplot as plt

    plt.close("all")
    said = capsys.readouterr().out
    assert "math launches" in said
    assert "is not a SQLite file" in said
