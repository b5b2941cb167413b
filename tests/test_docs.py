"""The examples of the documentation do what it says of them."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nsysprof.app.help import list_topics
from nsysprof.cli import app
from tests.builders.build_trace import TraceBuilder

pytest_plugins = ["pytester"]
ROOT = Path(__file__).parents[1]


def run(name, least):
    """Every Python block of a page, in order. pytest makes errors of warnings."""
    scope = {"__name__": "docs"}
    found = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / name).read_text(encoding="utf-8"), re.M | re.S)
    assert len(found) >= least
    for number, code in enumerate(found):
        exec(compile(code, f"docs/{name}, block {number}", "exec"), scope)


def test_the_python_example_runs_from_top_to_bottom(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    run("python.md", 12)
    import matplotlib.pyplot as plt

    plt.close("all")
    said = capsys.readouterr().out
    assert "math launches" in said
    assert "is not a SQLite file" in said


def test_the_tutorial_gets_the_answer_that_its_trace_holds(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    run("tutorial.md", 1)
    name, instances, total = capsys.readouterr().out.rsplit(maxsplit=2)
    assert "gemm" in name
    assert int(instances) >= 10
    assert int(total) > 10**6


def quoted_lines(page):
    """Return the words of each line with a number that a page quotes from the output of `analyze`."""
    blocks = re.findall(r"^```\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.M | re.S)
    marks = ("$ nsysprof analyze traces/", "wall  peak VRAM", "Cases (counts, times and bytes per call)")
    quoted = (line for block in blocks if any(mark in block for mark in marks) for line in block.splitlines())
    return [line.split() for line in quoted if not line.startswith(("$", "case ")) and re.search(r"\d", line)]


def is_within(words, line):
    """Return whether a line has these words in this order; a narrow terminal leaves out columns."""
    rest = iter(line.split())
    return all(word in rest for word in words)


@pytest.mark.parametrize(
    ("page", "reports", "least"),
    [
        ("docs/analyze.md", "tests/report/__snapshots__/test_document.ambr", 6),
        ("docs/tutorial.md", "tests/report/__snapshots__/test_document.ambr", 2),
        ("docs/capture.md", "analysis/h200-sdpa/report.md", 6),
    ],
)
def test_what_a_page_quotes_is_in_a_report(page, reports, least):
    text = (ROOT / reports).read_text(encoding="utf-8")
    if reports.endswith(".md"):
        text = text.replace("|", " ").replace("\\", "").replace("*", "")
    lines = text.splitlines()
    quoted = quoted_lines(page)
    assert len(quoted) >= least
    assert [words for words in quoted if not any(is_within(words, line) for line in lines)] == []


def test_what_the_readme_quotes_is_what_analyze_says(monkeypatch, tmp_path):
    """The grid of its first screen, and the training."""
    monkeypatch.setenv("COLUMNS", "120")
    lines = []
    for name in ("h200-sdpa", "h200-programs/train-all.sqlite.xz"):
        command = [
            "analyze",
            str(ROOT / "traces" / name),
            "--out",
            str(tmp_path / name.partition("/")[0]),
            "--no-figures",
        ]
        lines += CliRunner().invoke(app, command).stdout.splitlines()
    quoted = quoted_lines("README.md")
    assert len(quoted) >= 6
    assert [words for words in quoted if not any(is_within(words, line) for line in lines)] == []


def test_the_first_lines_of_the_readme_are_those_of_the_user():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert lines[2:7] == [
        "```",
        "nsysprof capture --backends math,flash --seq 1024,2048,4096",
        "nsysprof analyze trace.sqlite",
        "nsysprof bundle traces/NAME        # then attach it to an issue",
        "```",
    ]


def test_what_the_page_of_ranks_quotes_is_what_analyze_says(monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "80")
    traces = [str(ROOT / f"traces/ddp_rank{rank}.sqlite.xz") for rank in (0, 1)]
    said = CliRunner().invoke(app, ["analyze", *traces, "--out", str(tmp_path / "out"), "--no-figures"]).stdout
    # Long lines are broken on the page.
    assert [words for words in quoted_lines("docs/ranks.md") if not is_within(words, said)] == []


def test_every_extra_that_a_page_or_a_message_names_exists():
    known = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    texts = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "nsysprof").rglob("*.py")]
    named = {
        extra
        for path in texts
        for extras in re.findall(r"(?:nsysprof|'\.)\[([a-z,]+)\]", path.read_text(encoding="utf-8"))
        for extra in extras.split(",")
    }
    assert {"figures", "torch", "view"} <= named <= known


def test_every_exit_code_is_documented():
    from nsysprof import errors

    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    codes = {each.exit_code for each in vars(errors).values() if isinstance(each, type)}
    assert len(codes) > 10
    assert {code for code in codes if f"| {code} |" not in page} == set()


def test_a_stale_or_missing_part_of_a_generated_page_is_noticed():
    import runpy

    generate = runpy.run_path(str(ROOT / "scripts" / "generate_docs.py"))["generate"]
    page = "<!-- generated: notes bench -->\nold\n<!-- end of generated part -->\n"
    assert "| `cpu` | info |" in generate(page, {"bench"})
    assert generate(generate(page, {"bench"}), {"bench"}) == generate(page, {"bench"})
    with pytest.raises(SystemExit, match="no generated part for ranks"):
        generate(page, {"bench", "ranks"})


def test_the_parquet_example_runs_on_an_export(monkeypatch, tmp_path, capsys):
    from nsysprof.export.parquet import write_parquet
    from tests.export.contents import content_of

    write_parquet(content_of(built(tmp_path)), tmp_path / "tables", lambda _more: None)
    monkeypatch.chdir(tmp_path)
    run("export.md", 1)
    assert "gemm(int)    100.0" in capsys.readouterr().out


def built(folder):
    builder = TraceBuilder()
    builder.launch(10, 1, name="gemm")
    return builder.write(folder / "t.sqlite")


def test_the_policy_example_runs_from_top_to_bottom(monkeypatch, tmp_path, capsys):
    pytest.importorskip("torch", reason="needs the extra [torch]")
    monkeypatch.chdir(tmp_path)
    run("policy.md", 3)
    assert "tuned on 1.13.0" in capsys.readouterr().out


@pytest.mark.skipif(os.environ.get("LOWEST") == "1", reason="the pages are made with the newest packages")
def test_the_generated_pages_are_as_the_registries_say():
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "generate_docs.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_trace_in_git_has_its_provenance():
    said = (ROOT / "traces" / "README.md").read_text(encoding="utf-8")
    names = [path.name for path in (ROOT / "traces").glob("*") if path.suffix in (".xz", ".gz")]
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8")
    names += re.findall(r"^!/traces/([\w-]+/)$", ignored, re.M)
    assert len(names) >= 18
    assert [name for name in names if f"`{name}`" not in said] == []


def test_the_pytest_example_passes(pytester):
    (code,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/pytest.md").read_text(encoding="utf-8"), re.M | re.S)
    pytester.makepyfile(code)
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_every_option_and_metric_in_the_page_of_compare_exists():
    from nsysprof.analysis.comparison.gate.gate import known_metrics, parse_gate

    page = (ROOT / "docs" / "compare.md").read_text(encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "nsysprof", "compare", "--help"], capture_output=True, text=True, check=True
    )
    used = set(re.findall(r"(--[a-z][a-z-]+)", page)) - {"--self-check", "--processes", "--rounds", "--quiet"}
    of_others = {"--backends", "--seq", "--memory", "--no-figures", "--body-file", "--baseline", "--candidate"}
    assert {option for option in used - of_others if option not in done.stdout} == set()
    for gate in re.findall(r"--fail-on ([a-z]+:\S+?)[\]`\s]", page):
        assert parse_gate(gate)
    table = page[page.index("## The gate") : page.index("| exit code")]
    assert {name for name in known_metrics() if f"`{name}`" not in table} == set()


def test_every_option_in_the_page_of_programs_exists():
    page = (ROOT / "docs" / "program.md").read_text(encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "nsysprof", "capture", "--help"], capture_output=True, text=True, check=True
    )
    of_others = {"--nproc-per-node", "--nnodes", "--ntasks-per-node", "--epochs", "--straggle", "--in"}
    used = set(re.findall(r"(?<![=\w])(--[a-z][a-z-]+)", page)) - of_others
    assert {"--per-rank", "--capture-range", "--end-program"} <= used
    of_nsys = {"--cuda-graph-trace", "--cuda-memory-usage"}
    assert {option for option in used - of_nsys if option not in done.stdout} == set()


def test_the_site_lists_each_study() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in sorted((ROOT / "analysis").glob("*/README.md")):
        assert f": {page.relative_to(ROOT).as_posix()}\n" in navigation


def texts_of(path):
    """Return the texts in a module that may name a page, without docstrings apart from those of commands.

    The program prints the docstrings of commands.
    """
    source = path.read_text(encoding="utf-8")
    if "docs/" not in source and "nsysprof help" not in source:
        return []
    tree = ast.parse(source)
    holders = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, holders)
        and ast.get_docstring(node)
        and not (path.parent.name == "cli" and node in tree.body)
    }
    constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return [node.value for node in constants if id(node) not in docstrings]


def test_the_program_names_a_topic_and_never_a_file_that_an_installation_lacks():
    texts = {path: texts_of(path) for path in (ROOT / "nsysprof").rglob("*.py")}
    del texts[ROOT / "nsysprof/app/help.py"]
    texts[ROOT / "nsysprof/notes.toml"] = [
        (ROOT / "nsysprof/notes.toml").read_text(encoding="utf-8").partition("\n[[")[2]
    ]
    naming = [(path.name, text) for path, some in texts.items() for text in some if re.search(r"\bdocs/\w", text)]
    assert naming == []
    topics = {topic.name for topic in list_topics()}
    named = {
        word for some in texts.values() for text in some for word in re.findall(r"nsysprof help ([a-z][a-z-]*)", text)
    }
    assert named >= {"bench", "tune", "causes"}
    assert named <= topics


def test_how_to_get_nsys_is_in_the_readme_on_its_page_and_in_the_error():
    from nsysprof.nsight.run_tool import GET_NSYS

    page, readme = ((ROOT / name).read_text(encoding="utf-8") for name in ("docs/nsys.md", "README.md"))
    blocks = re.findall(r"^\*\*(\w+)[^`]*?```\n(.*?)^```", page, re.M | re.S)
    assert {len(lines.splitlines()) for _, lines in blocks} == {3}, "three lines for each platform"
    assert re.findall(r"^\*\*(\w+)", page, re.M) == ["Ubuntu", "RHEL", "Debian", "Containers", "Clusters"]
    assert next(lines for name, lines in blocks if name == "Ubuntu") in readme
    for command in ("apt install nsight-systems-cli", "dnf install nsight-systems-cli", "nsysprof help nsys"):
        assert command in GET_NSYS


def test_the_gallery_has_six_reports_of_traces_in_the_repository():
    pytest.importorskip("mkdocs")
    from scripts import docs_hooks

    reports = docs_hooks.list_gallery()
    assert len(reports) == 6
    for command, *arguments in reports.values():
        assert command in ("analyze", "compare")
        assert all((ROOT / argument).exists() for argument in arguments)
