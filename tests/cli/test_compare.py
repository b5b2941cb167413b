"""`nsysprof compare` as a user runs it: inputs, verdicts, exit codes, files."""

import json
import lzma
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from xml.etree import ElementTree

import pytest

from nsysprof.cli.compare import split_sides
from nsysprof.errors import UsageError
from tests.builders import run_command
from tests.builders.build_trace import TraceBuilder
from tests.builders.published_schema import as_published
from tests.builders.run_command import fails
from tests.cli.planted import another_backend, make_capture, more_memory, one_more_launch, slower_kernels
from tests.conftest import REPOSITORY

TUNE = REPOSITORY / "analysis" / "h200-tune"
GATE = "slower:3%,launches:+1,vram:+5%"


def run(*arguments, cwd=None):
    return run_command.run("compare", *arguments, cwd=cwd)


def result(*arguments, code=0):
    done = run(*arguments, "--json")
    assert done.returncode == code, done.stderr
    assert done.stderr == ""
    return as_published("compare", done.stdout)


def codes(data):
    return {note["code"] for note in data["notes"]}


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return make_capture(tmp_path_factory.mktemp("base") / "base")


def test_a_capture_with_itself_is_never_a_difference(base):
    data = result(base, base, "--fail-on", f"{GATE},kernels:+1,bytes:+1B,busy:1%,gaps:1%,wall:1%")
    assert data["outcome"] == "pass"
    assert {change["verdict"] for change in data["latency"]["changes"]} == {"SAME"}
    assert [(each["code"], each["how"]) for each in data["findings"]] == [("unfused-attention", "both")]
    assert len(data["ranges"]) == 15
    for change in data["ranges"]:
        assert change["how"] == "both"
        assert change["wall_change_ns"] == 0
        assert {metric["change"] for metric in change["metrics"].values()} <= {0, None}
        assert {kernel["how"] for kernel in change["kernels"]} == {"both"}
    assert "same-input" in codes(data)


@pytest.mark.slow
def test_benches_and_traces_with_themselves(trace_path):
    for source in (TUNE / "bench", TUNE / "bench" / "samples.json.xz"):
        data = result(source, source, "--fail-on", "slower:1%,faster:1%,vram:1%")
        assert {change["verdict"] for change in data["latency"]["changes"]} == {"SAME"}
    for source in (*map(trace_path, ("sdpa", "ddp_rank0", "graph_node", "mp")), REPOSITORY / "traces/inputs.json.gz"):
        data = result(source, source, "--fail-on", "launches:1,kernels:1,vram:1%,busy:1%")
        assert data["outcome"] == "pass"


def test_two_measurements_of_the_same_code_on_an_h200():
    """Taken by bench and by tune, at different times, of the same cases."""
    data = result(TUNE / "bench", TUNE / "grid")
    judged = [change for change in data["latency"]["changes"] if change["verdict"]]
    assert len(judged) == 30
    assert {change["verdict"] for change in judged} == {"SAME", "INCONCLUSIVE"}
    assert sum(change["verdict"] == "SAME" for change in judged) == 14
    assert all("too few" in change["reason"] for change in judged if change["ratio"] and change["p"] is None)


def test_one_more_launch_is_found(base, tmp_path):
    planted = make_capture(tmp_path / "planted", change=one_more_launch)
    data = result(base, planted, "--fail-on", "launches:+1,kernels:+1,vram:+5%", code=1)
    gate = {each["rule"]: each for each in data["gate"]}
    assert gate["launches:+1"]["outcome"] == gate["kernels:+1"]["outcome"] == "regression"
    assert [finding["where"] for finding in gate["launches:+1"]["findings"]] == ["RUN::flash::S4096"]
    assert "launches 1 to 2" in gate["launches:+1"]["findings"][0]["text"]
    assert gate["vram:+5%"]["outcome"] == "pass"


def test_slower_kernels_are_found(base, tmp_path):
    planted = make_capture(tmp_path / "planted", change=slower_kernels)
    data = result(base, planted, "--fail-on", "kernel_time:4%", code=3)
    (gate,) = data["gate"]
    assert len(gate["findings"]) == 15
    assert "1.050 times as long" in gate["findings"][0]["text"], "5 % may be the two processes"
    change = next(each for each in data["ranges"] if each["range"] == "RUN::math::S4096")
    assert sum(change["parts"].values()) == change["wall_change_ns"] == 0
    assert change["parts"]["kernels_ns"] > 0 > change["parts"]["gaps_ns"], "what kernels took, the gaps lost"


def test_another_backend_is_found_and_its_kernels_paired(base, tmp_path):
    planted = make_capture(tmp_path / "planted", change=another_backend)
    data = result(base, planted)
    (note,) = [note for note in data["notes"] if note["code"] == "backend-changed"]
    assert "RUN::auto::S4096 ran cudnn in the baseline and runs flash in the candidate" in note["text"]
    change = next(each for each in data["ranges"] if each["range"] == "RUN::auto::S4096")
    assert [(kernel["how"], kernel["role"]) for kernel in change["kernels"]] == [("renamed", "attention")]


def test_more_memory_is_found(base, tmp_path):
    planted = make_capture(tmp_path / "planted", change=more_memory)
    data = result(base, planted, "--fail-on", "vram:+5%", code=1)
    assert len([f for f in data["gate"][0]["findings"] if f["outcome"] == "regression"]) == 15
    assert result(base, planted, "--fail-on", "vram:+11%")["outcome"] == "pass"


@pytest.mark.slow
def test_many_captures_of_each_side(tmp_path):
    for number in range(5):
        make_capture(tmp_path / "old" / f"{number}", seed=30 + number)
        make_capture(tmp_path / "same" / f"{number}", seed=40 + number)
        make_capture(tmp_path / "slow" / f"{number}", seed=50 + number, slower=1.05)
    same = result(tmp_path / "old", tmp_path / "same")
    found = [change["verdict"] for change in same["latency"]["changes"]]
    assert set(found) <= {"SAME", "INCONCLUSIVE"}
    assert found.count("SAME") >= 12
    assert same["latency"]["unit"] == "run"
    slow = result(*sorted((tmp_path / "old").iterdir()), "vs", tmp_path / "slow", "--fail-on", GATE, code=1)
    found = [change["verdict"] for change in slow["latency"]["changes"]]
    assert found.count("SLOWER") >= 12
    assert set(found) <= {"SLOWER", "INCONCLUSIVE"}
    assert slow["baseline"]["inputs"] == ["0", "1", "2", "3", "4"]


def test_one_capture_of_each_side_is_honest_about_it(base, tmp_path):
    done = run(base, make_capture(tmp_path / "other", seed=1), "--fail-on", "slower:3%")
    assert done.returncode == 3
    assert "Nothing was measured in two processes" in done.stdout
    assert "4 captures of each side" in done.stdout
    assert "gate: inconclusive" in done.stdout


def test_other_environments_are_refused_and_listed(base, tmp_path):
    other = make_capture(
        tmp_path / "other", environment={"driver_version": "590.1", "cudnn_loaded_version": "9.10.0", "clocks": None}
    )
    done = run(base, other, "--fail-on", GATE)
    fails(
        done,
        15,
        "driver_version: 580.159.04 in the baseline, 590.1 in the candidate",
        "cudnn_loaded_version",
        "--ignore-conditions",
    )
    forced = run(base, other, "--ignore-conditions", "--markdown", tmp_path / "r.md")
    assert forced.returncode == 0
    assert "NOT COMPARABLE" in forced.stdout.splitlines()[1]
    assert "NOT COMPARABLE" in (tmp_path / "r.md").read_text().splitlines()[4]


def test_captures_and_benches_of_other_shapes(base):
    fails(run(base, TUNE / "bench"), 15, "no case in common")


def test_caches_that_were_warm_and_those_that_were_not(tmp_path):
    data = lzma.decompress((TUNE / "flex" / "samples.json.xz").read_bytes())
    for name, text in (("cold", data), ("warm", data.replace(b'"flush":true', b'"flush":false'))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "samples.json").write_bytes(text)
    done = run(tmp_path / "cold", tmp_path / "warm")
    fails(done, 15, "latency_method: bench, caches emptied before each call in the baseline")


def test_captures_with_no_case_in_common(base, tmp_path):
    manifest = json.loads((base / "manifest.json").read_text())
    cases = [{**case, "seq": case["seq"] * 64} for case in manifest["cases"]]
    other = make_capture(tmp_path / "other", manifest={"cases": cases, "profiler": "none"})
    fails(run(base, other), 15, "no case in common", "math::S1024", "math::S65536")
    fails(run(base, other, "--ignore-conditions"), 15, "no case in common")


def test_traces_of_different_programs(trace_path):
    done = run(trace_path("ddp_rank0"), trace_path("mem"))
    fails(done, 15, "no ranges in common", "different programs", "h2d_pinned_4x64MiB")
    assert run(trace_path("ddp_rank0"), trace_path("mem"), "--ignore-conditions").returncode == 0


def test_traces_without_ranges_are_compared_by_kernel(tmp_path):
    paths = []
    for name, kernels in (("a", "xy"), ("b", "xyy"), ("c", "z")):
        builder = TraceBuilder()
        for number, kernel in enumerate(kernels):
            builder.launch(number * 1000, number + 1, name=f"kernel_{kernel}")
        paths.append(builder.write(tmp_path / f"{name}.sqlite"))
    data = result(paths[0], paths[1], "--fail-on", "launches:+1", code=1)
    assert [each["range"] for each in data["ranges"]] == ["(whole trace)"]
    fails(run(paths[0], paths[2]), 15, "no ranges and kernels in common")


def test_a_trace_that_lost_its_kernels_decides_nothing(trace_path):
    """The same program, recorded by an nsys that knows the driver and by one that does not."""
    data = result(
        trace_path("sdpa"), trace_path("sdpa23"), "--ignore-conditions", "--fail-on", "launches:+1,vram:+5%", code=3
    )
    assert {finding["outcome"] for gate in data["gate"] for finding in gate["findings"]} == {"inconclusive"}
    assert "not complete" in data["gate"][0]["findings"][0]["text"]


def test_kinds_that_hold_nothing_of_each_other(trace_path):
    fails(run(TUNE / "bench", trace_path("sdpa")), 15, "A bench and a trace have nothing that can be compared")


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["a"], 2, "which of 1 inputs is the baseline"),
        (["a", "b", "c"], 2, "vs CANDIDATE"),
        (["a", "vs"], 2, "vs CANDIDATE"),
        (["nowhere", "b"], 7, "nowhere does not exist"),
        (["{tmp}", "{tmp}"], 7, "holds no capture, no trace and no bench"),
        (["{base}", "{base}", "--fail-on", "slower:-1%"], 2, "is not a valid rule"),
        (["{base}", "{base}", "--fail-on", " "], 2, "is empty"),
        (["{base}", "{base}", "--margin", "0"], 2, "--margin 0"),
        (["{base}", "{base}", "--floor", "nan"], 2, "--floor nan"),
        (["{base}", "{base}", "--out", "{base}"], 4, "did not write it as a comparison"),
        ([REPOSITORY / "analysis/h200-sdpa", "{base}"], 7, "is an analysis"),
    ],
)
def test_bad_arguments_look_like_neither_a_pass_nor_a_regression(base, tmp_path, arguments, code, says):
    given = [str(each).format(tmp=tmp_path, base=base) for each in arguments]
    fails(run(*given), code, says)


def test_unknown_options_are_no_regression_either(base):
    assert run(base, base, "--nonsense").returncode == 2
    assert run().returncode == 2


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("samples.json", b"{}", 7),
        ("samples.json", b"", 7),
        ("samples.json", b'{"format_version": 99, "nsysprof_version": "9"}', 7),
        ("samples.json.xz", b"junk", 7),
        ("samples.json", b"\xff\xfe", 7),
        ("x.sqlite", b"", 8),
        ("x.sqlite", b"hello", 10),
    ],
)
def test_damaged_inputs(base, tmp_path, name, content, code):
    (tmp_path / name).write_bytes(content)
    fails(run(base, tmp_path / name), code, name)


@pytest.mark.parametrize("value", ["0", "-3", '"x"', "1.5", "null"])
def test_a_bench_with_impossible_samples(tmp_path, value):
    text = lzma.decompress((TUNE / "flex" / "samples.json.xz").read_bytes()).decode()
    (tmp_path / "samples.json").write_text(re.sub(r'"values_ns":\[\d+', f'"values_ns":[{value}', text, count=1))
    fails(run(tmp_path, TUNE / "flex"), 7, "blocks[0].values_ns[0]")


@pytest.mark.parametrize(
    "samples",
    ["", "[]", '{"samples": 3}', '{"samples": {"RUN::math::S1024": {"values": ["x"], "method": "m"}}}',
     '{"samples": {"RUN::math::S1024": {"values": [-5], "method": "m"}}}'],
)  # fmt: skip
def test_a_capture_with_damaged_samples(base, tmp_path, samples):
    shutil.copytree(base, tmp_path / "c")
    (tmp_path / "c" / "samples.json").write_text(samples)
    fails(run(base, tmp_path / "c"), 7, "is not a capture's samples")


def test_the_folder_the_markdown_and_the_junit(base, tmp_path):
    planted = make_capture(tmp_path / "planted", seed=3, change=one_more_launch)
    out = tmp_path / "out"
    arguments = [base, planted, "--fail-on", GATE, "--out", out, "--markdown", tmp_path / "pr" / "c.md"]
    done = run(*arguments, "--junit", tmp_path / "j.xml")
    assert done.returncode == 1
    assert {path.name for path in out.iterdir()} == {
        "compare.json",
        "report.md",
        "report.json",
        "report.html",
        "ratios.png",
        "parts.png",
        "folder.json",
    }
    assert json.loads((out / "compare.json").read_text())["outcome"] == "regression"
    text = (tmp_path / "pr" / "c.md").read_text()
    assert text.startswith("# nsysprof compare: REGRESSION")
    assert "| `launches:+1` | REGRESSION |" in text
    assert len(text) < 60_000
    assert str(tmp_path) not in text
    suite = ElementTree.parse(tmp_path / "j.xml").getroot()[0]
    assert suite.get("failures") == "1"
    assert int(suite.get("errors")) >= 1
    fails(run(*arguments), 4, "already holds a comparison", "--force")
    assert run(*arguments, "--force", "--no-figures").returncode == 1
    assert {path.name for path in out.iterdir()} == {
        "compare.json",
        "folder.json",
        "report.md",
        "report.html",
        "report.json",
    }


def test_nothing_that_is_compared_is_changed(base, trace_path, tmp_path):
    before = {path: path.read_bytes() for path in base.rglob("*") if path.is_file()}
    run(base, trace_path("sdpa"), "--ignore-conditions", "--out", tmp_path / "o")
    assert {path: path.read_bytes() for path in base.rglob("*") if path.is_file()} == before


def test_hostile_names_stay_text(tmp_path):
    name = "<script>alert(1)</script>|`x`\x1b[31m$(rm -rf)\u200b../../etc\ud800".encode("utf-8", "replace").decode()
    for side, count in (("a", 1), ("b", 2)):
        builder = TraceBuilder()
        builder.range(0, 10_000, name)
        for number in range(count):
            builder.launch(100 + number * 200, number + 1, name=f"{name}{side}")
        builder.write(tmp_path / f"{side}.sqlite")
    out = tmp_path / "o"
    done = run(
        tmp_path / "a.sqlite",
        tmp_path / "b.sqlite",
        "--out",
        out,
        "--junit",
        tmp_path / "j.xml",
        "--fail-on",
        "launches:1",
    )
    assert done.returncode == 1, done.stderr
    assert "\x1b" not in done.stdout
    text = (out / "report.md").read_text()
    assert "<script>" not in text
    assert "\x1b" not in text
    assert ElementTree.parse(tmp_path / "j.xml").getroot()[0].get("failures") == "2"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.sqlite", "b.sqlite", "j.xml", "o"]


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
def test_ctrl_c_is_neither_pass_nor_regression(base, tmp_path):
    out = tmp_path / "o"
    code = (
        "import sys, time\nfrom pathlib import Path\n"
        "from nsysprof.trace import columns\nfrom nsysprof.cli import main\n"
        "real = columns.table_sql\n"
        "def never(trace, table):\n    Path('reading').touch()\n    time.sleep(60)\n    return real(trace, table)\n"
        "columns.table_sql = never\n"
        "sys.argv = ['nsysprof', *sys.argv[1:]]\nmain()"
    )
    command = [sys.executable, "-c", code, "compare", str(base), str(base), "--out", str(out)]
    (tmp_path / "tmp").mkdir()
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    child = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=tmp_path
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (tmp_path / "reading").exists():
        time.sleep(0.01)
    os.kill(child.pid, signal.SIGINT)
    _, said = child.communicate(timeout=60)
    assert child.returncode == 130, said
    assert "Traceback" not in said
    assert not out.exists()
    assert [path.name for path in (tmp_path / "tmp").glob("nsysprof-*")] == []


def test_sides():
    assert [len(side) for side in split_sides(["a", "b"])] == [1, 1]
    assert [len(side) for side in split_sides(["a", "b", "vs", "c"])] == [2, 1]
    for wrong in (["a"], ["vs", "a"], ["a", "vs", "b", "vs", "c"], ["a", "b", "c"]):
        with pytest.raises(UsageError):
            split_sides(wrong)


def test_a_capture_without_a_trace(base, tmp_path):
    bare = make_capture(tmp_path / "bare", manifest={"profiler": "none"})
    (bare / "nsys.sqlite").unlink()
    data = result(bare, base, "--fail-on", "slower:3%")
    assert (data["outcome"], data["ranges"]) == ("pass", [])
    assert result(bare, base, "--fail-on", "launches:+1", code=3)["outcome"] == "inconclusive"


def test_the_database_is_left_without_a_journal(tmp_path, trace_path):
    run(trace_path("mem"), trace_path("mem"))
    assert not list(trace_path("mem").parent.glob("*-journal"))
    with sqlite3.connect(trace_path("mem")) as database:
        assert database.execute("PRAGMA quick_check").fetchone() == ("ok",)
