"""The scripts that people and CI call: they explain themselves, refuse clearly, and read the machine's sources."""

from __future__ import annotations

import contextlib
import json
import lzma
import os
import re
import shutil
import sqlite3
import statistics
import subprocess
import sys
import time
from importlib import import_module
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from scipy import stats

from nsysprof.app.analyze import analyze_trace
from nsysprof.report.document import Report
from nsysprof.report.formats.markdown import render_markdown
from nsysprof.report.pages.analysis import findings_sections
from nsysprof.results.findings import Findings
from nsysprof.units import format_ns
from tests.conftest import REPOSITORY

SCRIPTS = REPOSITORY / "scripts"
NO_BENCHES = {"__init__", "capture_cost", "hook_cost", "large_traces", "machine"}
DEB822 = """\
Types: deb deb-src
# a comment
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main
"""


@pytest.fixture
def install_nsys() -> Any:
    return load("install_nsys")


def load(name: str) -> Any:
    """Return a script as a module."""
    loader = SourceFileLoader(name, str((SCRIPTS / name).with_suffix(".py")))
    spec = spec_from_loader(name, loader)
    assert spec
    module = module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses look for it
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = before
    return module


def call(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **environment}, cwd=REPOSITORY
    )


EXECUTABLE = sorted(path.name for path in SCRIPTS.iterdir() if os.access(path, os.X_OK) and path.is_file())


@pytest.mark.parametrize(
    "words", [*((name,) for name in EXECUTABLE), *(("bench.py", what) for what in load("bench").WHAT)]
)
def test_every_script_and_benchmark_is_executable_and_explains_itself(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Those in Python run here, where most of what they import is loaded."""
    script = SCRIPTS / words[0]
    if script.suffix == ".py":
        assert script.read_text(encoding="utf-8").startswith("#!/usr/bin/env python3\n")
        monkeypatch.setattr(sys, "path", [str(SCRIPTS), *sys.path])
        monkeypatch.setattr(sys, "argv", [str(script), *words[1:], "--help"])
        with pytest.raises(SystemExit) as ended:
            run_path(str(script), run_name="__main__")
        assert not ended.value.code
    else:
        subprocess.run([script, "--help"], check=True)
    said = capfd.readouterr().out
    assert said.strip() and all(word in said for word in words[1:])


def test_an_unknown_benchmark_is_refused_with_the_list_of_those_that_there_are() -> None:
    done = call(sys.executable, str(SCRIPTS / "bench.py"), "speeds")
    assert done.returncode == 2
    assert set(load("bench").WHAT) == {path.stem for path in (SCRIPTS / "benches").glob("*.py")} - NO_BENCHES
    assert all(f"{what} " in done.stdout for what in load("bench").WHAT)


def test_a_python_that_is_not_there_is_named_before_a_wheel_is_built() -> None:
    done = call(sys.executable, str(SCRIPTS / "check_wheel.py"), "--python", sys.executable, "python9.9")
    assert done.returncode == 2
    assert "there is no python9.9; name each Python" in done.stderr


def test_ci_calls_the_test_command_of_the_makefile() -> None:
    assert "exec make test" in (REPOSITORY / ".ci/run").read_text()
    targets = re.findall(r"^([a-z]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    assert {"demo", "test", "check", "help"} <= set(targets)
    dry_run = call("make", "--dry-run", "test")
    assert "scripts/check" in dry_run.stdout


def fake_apt_folder(monkeypatch: pytest.MonkeyPatch, module: Any, root: Path) -> Path:
    """Lets the script read `root` where it would read /etc."""
    monkeypatch.setattr(
        module, "Path", lambda path: root / str(path).lstrip("/") if str(path)[0] == "/" else Path(path)
    )
    (root / "etc/apt/sources.list.d").mkdir(parents=True)
    return root / "etc"


def test_a_deb822_source_is_derived(install_nsys: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    etc = fake_apt_folder(monkeypatch, install_nsys, tmp_path)
    (etc / "os-release").write_text('ID=debian\nVERSION_CODENAME="bookworm"\n')
    (etc / "apt/sources.list.d/debian.sources").write_text(DEB822)

    install_nsys.write_source(tmp_path, "2024.2.3")

    assert (tmp_path / "nsys.sources").read_text() == (
        "Types: deb deb-src\n"
        "URIs: http://mirror.example/debian\n"
        "Suites: bookworm trixie experimental\n"
        "Components: main contrib non-free\n"
        "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n"
    )


@pytest.mark.parametrize("options", ["", "[signed-by=/k.gpg arch=amd64] "])
def test_a_classic_source_is_derived(
    install_nsys: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: str
) -> None:
    etc = fake_apt_folder(monkeypatch, install_nsys, tmp_path)
    (etc / "os-release").write_text("ID=debian\nVERSION_CODENAME=bookworm\n")
    lines = "# deb http://old.example bookworm main\ndeb-src http://mirror.example/debian bookworm main\n"
    (etc / "apt/sources.list").write_text(f"{lines}deb {options}http://mirror.example/debian bookworm main\n")

    install_nsys.write_source(tmp_path, "2023.4.4")

    source = f"deb {options}http://mirror.example/debian"
    assert (tmp_path / "nsys.list").read_text() == (
        f"{source} bookworm main contrib non-free\n{source} trixie main contrib non-free\n"
    )


def test_another_system_is_refused(
    install_nsys: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    etc = fake_apt_folder(monkeypatch, install_nsys, tmp_path)
    (etc / "os-release").write_text("ID=fedora\n")
    with pytest.raises(SystemExit) as ended:
        install_nsys.check_machine()
    assert ended.value.code == install_nsys.CANNOT
    assert "neither Debian nor Ubuntu" in capsys.readouterr().err


def test_a_folder_with_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    done = call(sys.executable, str(SCRIPTS / "install_nsys.py"), str(tmp_path))
    assert done.returncode == 2
    assert "not empty" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.nsys
def test_an_installed_version_is_found_without_network(nsys: Path) -> None:
    prefix = nsys.parent.parent
    if not (prefix / "VERSION").is_file():
        pytest.skip(f"{prefix} was not made by scripts/install_nsys.py")
    version = (prefix / "VERSION").read_text().strip()
    done = call(sys.executable, str(SCRIPTS / "install_nsys.py"), str(prefix), "--version", version)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str(nsys)


def test_counted_traffic_is_what_the_kernels_must_move(tmp_path: Path) -> None:
    source, script = REPOSITORY / "traces" / "h200-roofline", REPOSITORY / "scripts" / "expect_traffic.py"
    done = subprocess.run([sys.executable, script, source], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    held = [line for line in done.stdout.splitlines() if "| yes |" in line]
    assert len(held) == 20
    assert all("agrees" in line for line in held)
    for name in ("manifest.json", "counters.csv"):
        (tmp_path / name).write_bytes((source / name).read_bytes())
    lines = (tmp_path / "counters.csv").read_text().splitlines(keepends=True)
    dropped = next(n for n, line in enumerate(lines) if line.startswith("traffic,RUN::math::S8192::pass=fwd,15,"))
    (tmp_path / "counters.csv").write_text("".join(lines[:dropped] + lines[dropped + 1 :]))
    done = subprocess.run([sys.executable, script, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 1, "the softmax is missing"
    assert sum("WRONG" in line for line in done.stdout.splitlines()) == 1


@pytest.mark.slow
def test_the_study_of_planted_faults_says_what_its_traces_say() -> None:
    """Whoever changes what is found or predicted writes the study again: scripts/prove_findings.py --write."""
    study = REPOSITORY / "analysis/h200-faults/README.md"
    assert load("prove_findings").study() == study.read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_study_of_busy_time_says_what_its_traces_say() -> None:
    """Whoever changes what is found or predicted writes the study again: scripts/prove_busy.py --write."""
    study = REPOSITORY / "analysis/h200-busy/README.md"
    assert load("prove_busy").write_page() == study.read_text(encoding="utf-8")


def test_the_study_of_jobs_says_what_its_data_say() -> None:
    """Whoever changes what is found in jobs writes the study again: scripts/prove_jobs.py --write."""
    script = load("prove_jobs")
    study = script.decode_json((script.STUDY / "jobs.json").read_bytes(), script.Study)
    assert script.page(study) == (script.STUDY / "README.md").read_text(encoding="utf-8")
    found = {name: {item.code: item for item in findings} for name, findings in study.findings.items()}
    assert {name for name in found if "redundant-communication" in found[name]} == {
        "ddp-reduce-always",
        "fsdp-reduce-always",
    }
    assert {name for name in found if "small-messages" in found[name]} == {
        "fsdp-small-shards",
        "tp-small-pieces",
    }
    for name in ("tp-small-pieces", "tp-fp32-messages", "pp-few-parts", "pp-unbalanced"):
        kind, _, fault = name.partition("-")
        step_ms = {form: statistics.median(times) for form, times in study.step_ms[kind].items()}
        predicted, saved_ns = found[name][script.FAULTS[name]], 1e6 * (step_ms[fault] - step_ms["none"])
        assert predicted.saving_low_ns < saved_ns < predicted.saving_high_ns
        if name != "tp-small-pieces":  # the replay takes off too much of what the host does
            assert abs(predicted.saving_ns - saved_ns) < 0.15 * 1e6 * step_ms[fault]
    for name, saved_ms in (("ddp-reduce-always", 6.7), ("fsdp-reduce-always", 20.2)):
        predicted = found[name]["redundant-communication"]
        assert abs(predicted.saving_ns / 1e6 - saved_ms) < 0.15 * saved_ms
        assert predicted.saving_low_ns < saved_ms * 1e6 < predicted.saving_high_ns


def test_every_planted_fault_is_found_first_and_predicted_within_the_promise() -> None:
    study = (REPOSITORY / "analysis/h200-faults/README.md").read_text(encoding="utf-8")
    rows = [line for line in study.splitlines() if line.count("|") == 11][2:]
    assert len(rows) == 11  # eight faults alone, one of a library, all of them, and FSDP with a slow rank
    assert [row for row in rows if "| yes |" not in row] == []
    assert [row.split("|")[5].strip() for row in rows[:9]] == ["1"] * 9
    right, decided = re.search(
        r"(\d+) of (\d+) have their\s+findings in\s+the\s+order\s+of\s+their\s+costs", study
    ).groups()
    assert right == decided
    # With all faults, at three sizes. Tables of the other sizes lack what a fault costs alone.
    tables = re.findall(r"(?<=\n\n)\| fault among all.*\n.*\n((?:\|.*\n)*)", study)
    assert len(tables) == 3
    for text in tables:
        among_all = text.splitlines()
        assert len(among_all) == 8
        assert [row for row in among_all if "| yes |" not in row] == []
        # The four most expensive faults are the first four findings. Their costs lie in the intervals, by the ranges
        # of both, or not more than a millisecond beside them.
        places = []
        for row in among_all[:4]:
            low, high, least, most = map(float, re.search(r"\[(.*), (.*?)\].*\[(.*), (.*?)\]", row).groups())
            assert least <= high
            assert low <= most + 1
            places.append(row.split("|")[-5].strip())
        assert sorted(places) == ["1", "2", "3", "4"]


def test_faults_among_all_others_are_in_the_order_of_what_they_cost_there() -> None:
    prove, times = load("prove_findings"), {"all": [[100.0, 100.0]]}
    times |= {f"without-{fault}": [[100.0 - place]] for place, fault in enumerate(prove.EXPECTED)}
    bounds = {"saving_ns": 5_000_000, "saving_low_ns": 4_000_000, "saving_high_ns": 6_000_000}
    item = SimpleNamespace(code="stream-dependency", range="elsewhere", rank=3, **bounds)
    alone = dict.fromkeys(prove.EXPECTED, prove.Cost(100.0, (4.0,)))
    rows = prove.order_in_all(SimpleNamespace(items=(item,)), times, alone)[3:]
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == list(prove.EXPECTED)[::-1]
    assert rows[0] == "| stream-dependency | 7.0 [7.0, 7.0] | 4.0 | 3 | 5.0 [4.0, 6.0] | -2.0 | yes |"
    assert "not found" in rows[1]


def test_the_clean_training_is_accused_of_nothing() -> None:
    assert load("prove_findings").findings_of("clean").items == ()


def test_a_real_attention_in_pieces_is_found_where_cublas_clears_its_workspace() -> None:
    first = load("prove_findings").findings_of("unfused-attention").items[0]
    assert (first.code, first.range) == ("unfused-attention", "forward")
    # The measured gain: 75.2 ms [75.0, 75.3] in three processes.
    assert first.saving_ns == pytest.approx(75.2e6, rel=0.02)
    assert first.saving_low_ns < 75.0e6
    assert first.saving_high_ns > 75.3e6


def test_the_cost_of_stragglers_is_what_the_jobs_without_them_take_less() -> None:
    """Whoever changes the replay writes the study again: scripts/prove_stragglers.py --write."""
    study = load("prove_stragglers").study()
    assert study == (REPOSITORY / "analysis/h200-ddp/README.md").read_text(encoding="utf-8")
    errors = [int(text) for text in re.findall(r"\| ([+-]\d+) % \|", study)]
    assert len(errors) == 2
    assert max(map(abs, errors)) <= 20
    assert study.count("| nobody |") == 2


def test_the_tables_beside_the_study_of_stragglers_are_what_analyze_says(tmp_path: Path) -> None:
    prove = load("prove_stragglers")
    assert prove.tables(prove.analysis(tmp_path / "out", "--no-figures")) == prove.tables(prove.FOLDER)


@pytest.mark.parametrize(
    "name",
    [
        "cpu-sdpa",
        "h200-captures",
        "h200-dram",
        "h200-optimize",
        "h200-roofline",
        "h200-same-code",
        "h200-sdpa",
        "h200-self-check",
        "h200-serving",
        "h200-tune",
    ],
)
def test_a_study_says_what_its_data_say(name: str) -> None:
    """Whoever changes what is computed writes the studies again: scripts/write_studies.py [--refresh]."""
    write_studies = load("write_studies")
    assert name in write_studies.STUDIES
    assert write_studies.render(name) == (REPOSITORY / "analysis" / name / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["h200-roofline", "h200-sdpa"])
def test_the_report_of_a_study_has_the_findings_of_today(name: str, trace_path: Any) -> None:
    """After a change of findings: scripts/write_studies.py --refresh."""
    assert name in load("write_studies").REPORTED
    section = findings_sections(analyze_trace(trace_path(f"{name}/nsys")))[0]
    text = render_markdown(Report(name, (section,))).partition("## ")[2]
    assert text in (REPOSITORY / "analysis" / name / "report.md").read_text(encoding="utf-8")


def test_the_pages_of_optimize_are_as_it_writes_them_now() -> None:
    pages = load("write_studies").h200_optimize.pages()
    assert len(pages) == len(list((REPOSITORY / "analysis/h200-optimize").glob("*/optimize.json")))
    stale = [str(page) for page, text in pages.items() if page.read_text(encoding="utf-8") != text]
    assert stale == [], "run scripts/write_studies.py"


def test_the_recording_of_the_demo_is_what_it_prints_now() -> None:
    """Whoever changes a sentence of a report records it again: scripts/record_demo.py."""
    record_demo = load("record_demo")
    lines, _ = record_demo.run_demo()
    text = record_demo.RECORDING.read_text(encoding="utf-8")
    assert record_demo.render(lines) == text, "run scripts/record_demo.py"
    assert len(text) < 300_000 and "pageable-copy" in text


def test_a_packed_trace_has_the_same_bytes_and_is_smaller(tmp_path: Path) -> None:
    source, packed = tmp_path / "trace.sqlite", tmp_path / "trace.sqlite.xz"
    rows = [(number * 1_000_003 + number % 7919, number % 30, "launch") for number in range(70_000, 130_000)]
    with contextlib.closing(sqlite3.connect(source)) as database:
        database.execute("CREATE TABLE calls (start INTEGER, took INTEGER, name TEXT)")
        database.executemany("INSERT INTO calls VALUES (?, ?, ?)", rows)
        database.commit()
    assert "bytes" in call(sys.executable, str(SCRIPTS / "pack_trace.py"), str(source), str(packed)).stdout
    assert lzma.decompress(packed.read_bytes()) == source.read_bytes()
    assert packed.stat().st_size < 0.8 * len(lzma.compress(source.read_bytes(), preset=9 | lzma.PRESET_EXTREME))


def test_every_study_is_written_by_a_script() -> None:
    own_scripts = {"h200-busy", "h200-ddp", "h200-faults", "h200-jobs"}
    folders = {path.parent.name for path in (REPOSITORY / "analysis").glob("*/README.md")}
    assert folders == {*load("write_studies").STUDIES, *own_scripts}


def test_templates_of_studies_hold_no_measured_number() -> None:
    thresholds = {"95 %", "10 %", "5 %", "3 %", "2 %"}
    for path in (SCRIPTS / "studies" / f"{name}.md" for name in load("write_studies").STUDIES):
        text = re.sub(r"```.*?```|`[^`]*`|\([^)]*\)", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        units = r"%|[num]?s\b|x\b|times|[KMG]i?B|T?FLOP|TB/s|of \d|cases|shapes|pairs"
        assert set(re.findall(rf"\d[\d.,]* ?(?:{units})", text)) <= thresholds, path


def test_a_gate_in_turn_passes_what_did_not_change_and_calls_what_did() -> None:
    """A few of the runs whose shares docs/calibration.md states."""
    calibrate = load("calibrate")
    rows = list(calibrate.gates_in_turn(calibrate.np.random.default_rng(0), calibrate.MODELS[0], 2))
    hits = {row.what.removeprefix("in turn, "): row.hits for row in rows}
    assert hits["20 unchanged cases: the gate passes"] == 1
    assert hits["20 unchanged cases: any is told apart"] == 0
    assert hits["20 cases, all 2.9 % slower: the gate calls a regression"] == 0
    assert hits["20 cases, one 3.15 % slower: the gate passes"] == 0
    assert hits["20 cases, one 6 % slower: the gate calls a regression"] == 1
    (gate,) = (family for family in calibrate.read_families() if family.name == "gate")
    assert {(row.model, row.what) for row in rows} <= {(row.model, row.what) for row in gate.rows}


def test_ranks_and_steps_that_differ_by_chance_are_judged_as_the_page_says() -> None:
    noise = load("rank_noise")
    rows = [*noise.outliers(0, 3), *noise.pauses(0, 3)]
    assert [row.what for row in rows if row.reach == "at most 5 %" and row.share > 0.1] == []
    assert all(row.share >= 0.8 for row in rows if row.reach == "at least 80 %")


def test_the_page_of_the_calibration_says_what_its_files_say() -> None:
    calibrate = load("calibrate")
    page = (REPOSITORY / "docs/calibration.md").read_text(encoding="utf-8")
    assert page == calibrate.page(calibrate.read_families())
    asked = [row for family in calibrate.read_families() for row in family.rows if row.reach]
    assert len(asked) > 100
    assert f"{sum(row.is_met for row in asked)} of {len(asked)} rows are as asked." in page


FAMILIES = (
    "advice", "bench", "busy-bench", "busy-captures", "busy-traces", "busy-tune", "busy-turns", "compare", "cost",
    "dram", "gate", "outliers", "pairs", "programs", "ranked-captures", "recording", "steps", "stragglers",
)  # fmt: skip


# This one simulates whole reports.
LONG = {"busy-traces": pytest.mark.slow}


@pytest.mark.parametrize("name", [pytest.param(name, marks=LONG.get(name, ())) for name in FAMILIES])
def test_a_family_of_the_calibration_was_simulated_with_the_code_as_it_is(name: str) -> None:
    """Whoever changes a verdict or an interval simulates again: scripts/calibrate.py --only FAMILY --write."""
    calibrate = load("calibrate")
    assert set(FAMILIES) == set(calibrate.FAMILIES)
    (family,) = (family for family in calibrate.read_families() if family.name == name)
    assert calibrate.probe(name, family.seed) == family.probe


@pytest.mark.slow
@pytest.mark.parametrize("family", ["bench", "gate", "programs", "recording", "compare", "dram"])
def test_other_simulations_give_the_shares_of_the_calibration(family: str) -> None:
    """With another seed; whoever changes a verdict or an interval simulates again: scripts/calibrate.py --write."""
    calibrate = load("calibrate")
    (simulated,) = (each for each in calibrate.read_families() if each.name == family)
    stated = {(row.model, row.what): (row.hits, row.of) for row in simulated.rows}
    rows = list(calibrate.FAMILIES[family](1, 12))
    assert rows
    for row in rows:
        hits, of = stated[row.model, row.what]
        table = [[hits, of - hits], [row.hits, row.of - row.hits]]
        assert stats.fisher_exact(table).pvalue > 1e-4, row


@pytest.mark.slow
def test_the_tables_of_the_tuning_study_come_from_its_samples(tmp_path: Path) -> None:
    from scripts.studies.h200_tune import FOLDER, evaluate

    for name in ("bench", "flex", "wider"):
        evaluate(name, tmp_path / name, figures=False)
        for path in (FOLDER / name).glob("*.csv*"):
            # Another processor may round the last digit of a logarithm otherwise.
            new = pd.read_csv(tmp_path / name / path.name.removesuffix(".xz"))
            stated = pd.read_csv(path)  # of a version whose shapes had fewer parts
            pd.testing.assert_frame_equal(new[stated.columns], stated, rtol=1e-9, atol=1e-12)
        assert not (tmp_path / name / "policy.json").exists(), "no shape has a winner"


@pytest.mark.slow
def test_the_verdicts_on_the_same_code_come_from_its_samples() -> None:
    from scripts.studies import h200_same_code

    old = pd.read_csv(h200_same_code.VERDICTS).fillna({"case": ""})
    pd.testing.assert_frame_equal(h200_same_code.evaluate(), old, rtol=1e-9, atol=1e-12)


@pytest.fixture(scope="module")
def training() -> Findings:
    """Return what is found in the training that the README shows."""
    return load("prove_findings").all_findings_of("train-all", REPOSITORY / "traces/h200-programs")


def test_the_faults_of_a_real_training_are_found(training: Findings) -> None:
    codes = [item.code for item in training.items]
    assert codes[0] == "pageable-copy"
    assert {"launch-bound", "host-bound", "alloc-in-loop", "unfused-optimizer", "unfused-attention"} <= set(codes)
    # The step takes 150.4 ms longer with all faults than with none.
    assert training.together_ns == pytest.approx(150.4e6, rel=0.15)


def test_the_answer_in_the_readme_is_what_the_analysis_says(training: Findings) -> None:
    readme = " ".join((REPOSITORY / "README.md").read_text(encoding="utf-8").split())
    assert f"Together these changes save about {format_ns(training.together_ns)} " in readme
    for rank, item in enumerate(training.items[:2], 1):
        assert f"{rank}. {item.code} in {item.range}: " in readme


@pytest.mark.parametrize(("nesting", "names"), [(1, 10), (4, 30)])
def test_a_large_trace_nests_as_it_should(nesting, names, tmp_path):
    large_traces = import_module("scripts.benches.large_traces")
    trace = tmp_path / "deep.sqlite"
    large_traces.make_deep_trace(trace, 2000, nesting, names)
    analysis = analyze_trace(trace)
    assert analysis.totals.kernel_count >= 2000 and analysis.coverage.launches_without_gpu_record == 0
    assert analysis.coverage.attributed_kernels == analysis.totals.kernel_count
    assert names / 2 < len(analysis.ranges) <= names
    ours = analysis.ranges["kernel_count"].sum() / (analysis.totals.kernel_count - analysis.coverage.adopted_kernels)
    assert nesting - 0.2 < ours <= nesting  # names of one nest in each other only where there are too few names
    pushed = analysis.range_tree["depth"].max() + 1
    assert pushed == nesting


def test_a_command_that_costs_more_than_before_is_told() -> None:
    speed = import_module("scripts.benches.speed")

    def measured(**cpu_s: float) -> dict[str, Any]:
        return {"shapes": [{"timings": [{"name": name, "cpu_s": value} for name, value in cpu_s.items()]}]}

    before = measured(scan=1.0, analyze=10.0, export=8.0)
    assert speed.compare(before, measured(scan=2.0, analyze=29.0, export=16.0, bundle=90.0)) == []
    (line,) = speed.compare(before, measured(scan=0.5, analyze=8.0, export=4.0))
    assert line == "analyze: 16.0 times the scan, 10.0 before"


def test_findings_cost_less_than_all_else_that_analyze_does() -> None:
    """The trace has ten million kernels; scripts/bench.py analyze measures it."""
    speed = import_module("scripts.benches.speed")
    found = json.loads((REPOSITORY / "analysis/speed/findings.json").read_text(encoding="utf-8"))
    assert found["shapes"][0]["trace"]["kernels"] >= 10_000_000
    assert speed.judge_findings(found) == []
    found["shapes"][0]["phases"]["phases"]["find_causes"][1] += found["shapes"][0]["phases"]["cpu_s"] / 2
    (line,) = speed.judge_findings(found)
    assert line.startswith("analyze takes ")


def test_a_first_run_takes_no_longer_than_the_next_and_help_little_longer_than_a_bare_program() -> None:
    """scripts/bench.py start measures it."""
    start = import_module("scripts.benches.start")
    found = json.loads((REPOSITORY / "analysis/speed/starts.json").read_text(encoding="utf-8"))["timings"]
    assert start.judge(found) == []
    found[1]["cpu_s"] = 2.1 * found[0]["cpu_s"]
    found[4]["cpu_s"] = found[3]["cpu_s"] + 1.1
    assert [line.split(" takes ")[0] for line in start.judge(found)] == ["--help", "a first run"]


def test_the_table_of_many_traces_has_medians_and_both_named_peers_added_up() -> None:
    """scripts/bench.py ranks measures it."""
    from scripts.benches.ranks import ONE, TWICE, TWO, render_ranks

    turns = {ONE: [8.0, 9.0, 30.0], TWO: [5.0], TWICE: [10.0]}
    turns |= {"nsys stats cuda_gpu_kern_sum": [20.0, 10.0, 10.0], "nsys recipe nvtx_gpu_proj_sum": [40.0]}
    text = render_ranks({"machine": "two cores", "load": 0.5, "traces": 64, "bytes": 1_280_000_000, "turns": turns})
    assert "64 traces, 1.28 GB; two cores, load 0.5 at the start:" in text
    assert f"| {ONE} | 9.0 | 1.8 |" in text
    assert "| nsys stats cuda_gpu_kern_sum | 10.0 | 2.0 |" in text
    assert "| cuda_gpu_kern_sum and nvtx_gpu_proj_sum | 50.0 | 10.0 |" in text
    assert "efficiency of 2 workers is 0.90" in text
    assert "reach 0.90 here" in text


def test_the_plot_of_speed_has_the_reports_of_nsys_stats_added_up(tmp_path: Path) -> None:
    sizes_of = import_module("scripts.benches.sizes")

    def timing(name: str, cpu_s: float) -> dict[str, Any]:
        return {"name": name, "cpu_s": cpu_s}

    ours = "nsysprof analyze --no-figures"
    sizes = [
        {"kernels": 10, "timings": [timing("bare scan", 0.1), timing(ours, 1.0)]},
        {"kernels": 99, "timings": [timing(ours, 2.0), timing("nsys stats a", 3.0), timing("nsys stats b", 4.5)]},
    ]
    points = sizes_of.seconds({"sizes": sizes})
    assert points == {ours: [(10, 1.0), (99, 2.0)], "nsys stats": [(99, 7.5)], "bare scan": [(10, 0.1)]}
    sizes_of.draw({"machine": "two cores", "sizes": sizes}, tmp_path / "speed.png")
    assert (tmp_path / "speed.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_commands_cost_what_they_did() -> None:
    done = call(sys.executable, str(SCRIPTS / "bench.py"), "speed")
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_a_bare_recording_has_and_ours_lacks_is_found() -> None:
    from tests.captured_programs.trace_contents import TraceContents, only_in

    ours = TraceContents(kernels={"a": 5}, calls={"x": 1}, ranges={"r": 2}, replays=3, others={"memcpy": 1})
    assert only_in(ours, ours) == []
    bare = TraceContents(kernels={"a": 6, "b": 1}, calls={"y": 1}, ranges={"s": 1}, replays=4, others={"memcpy": 3})
    said = ["1 kernels a", "1 kernels b", "1 replays of graphs", "2 rows of memcpy", "calls of y", "ranges s"]
    assert only_in(bare, ours) == said
    assert only_in(ours, bare) == ["calls of x", "ranges r"]


def test_a_proof_is_right_only_where_counts_and_exit_codes_are() -> None:
    from tests.captured_programs.outcome import Outcome, Planted, ServerPart

    assert Outcome("eager", 200, 200, 200, exit_code=0).is_right
    assert not Outcome("eager", 200, 199, 0, exit_code=0).is_right
    assert not Outcome("eager", 200, 200, 200, exit_code=0, only_bare=["ranges x"]).is_right
    assert Outcome("killed", 100, 0, 0, exit_code=137, notes=["events-lost"]).is_right
    assert not Outcome("killed", 100, 0, 0, exit_code=137).is_honest, "silent"
    assert Outcome("exec", 100, 50, 50, exit_code=12, notes=["process-lost"]).is_right
    assert not Outcome("exec", 100, 50, 50, exit_code=0).is_honest, "silent"
    assert not Outcome("exec", 100, 50, 100, exit_code=12, notes=["process-lost"]).is_right, "a bare nsys has more"
    assert Planted("all kernels", "c++", "caught", 12, 0, 220, ["no-kernels"]).is_right
    assert not Planted("all kernels", "c++", "caught", 0, 0, 220, []).is_right
    assert not Planted("none", "c++", "silent", 0, 220, 220, ["events-lost"]).is_right
    assert Planted("full", "c++", "honest", 12, 9, 220, ["sampling-overflow"]).is_right
    assert not Planted("full", "c++", "honest", 0, 9, 220, []).is_right
    assert Planted("full", "c++", "resampled", 0, 220, 220, ["recorded-again"]).is_right
    assert not Planted("full", "c++", "resampled", 0, 219, 220, ["recorded-again"]).is_right
    part = ServerPart(10, 10 * 17 + 20, 17, 2, 3.0, 3.1, 3.0, survived=True, exit_code=0)
    assert part.is_right, "the step that was cut at the begin may have some"
    assert not ServerPart(10, 10 * 17 - 1, 17, 2, 3.0, 3.1, 3.0, survived=True, exit_code=0).is_right


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="stops processes that it finds in /proc")
def test_an_nsys_is_held_up_while_its_program_runs_and_goes_on_afterwards(tmp_path: Path) -> None:
    from tests.captured_programs.overflows import holding_up

    for name in ("nsys", "work"):
        (tmp_path / name).symlink_to("/bin/sleep")
    started: list[subprocess.Popen[bytes]] = []

    def reaches(letter: str) -> bool:
        state, deadline = Path(f"/proc/{started[0].pid}/stat"), time.monotonic() + 60
        while time.monotonic() < deadline and state.read_text().rpartition(") ")[2][0] != letter:
            time.sleep(0.01)
        return state.read_text().rpartition(") ")[2][0] == letter

    try:
        with holding_up(tmp_path / "nsys", "work", 600, tmp_path) as mark:
            environment = {**os.environ, **mark}
            started += [subprocess.Popen([tmp_path / name, "600"], env=environment) for name in ("nsys", "work")]
            assert reaches("T"), "it is stopped"
        assert reaches("S"), "it goes on"
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_the_lock_has_every_package_that_the_tests_need() -> None:
    lock = import_module("scripts.lock")
    pyproject = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
    needed = list(lock.read_needed(pyproject))
    text = (REPOSITORY / "requirements.lock").read_text(encoding="utf-8")
    assert list(lock.find_faults(text, needed)) == []
    assert {"msgspec", "matplotlib", "pytest", "mkdocs"} <= {requirement.name for requirement in needed}
    assert not re.search(r"://|@|--(extra-)?index|--find-links", text)
    assert len(re.findall(r"--hash=sha256:[0-9a-f]{64}$", text, re.MULTILINE)) >= len(lock.read_lock(text))


def test_a_lock_that_is_too_old_or_not_only_hashes_is_a_fault() -> None:
    lock = import_module("scripts.lock")
    pyproject = """
        [project]
        name = "nsysprof"
        dependencies = ["numpy>=1.26", "backports.zstd>=1; python_version < '3'"]
        [project.optional-dependencies]
        figures = ["matplotlib>=3.8"]
        torch = ["nsysprof[figures]", "torch>=2.5"]
        [dependency-groups]
        docs = ["mkdocs>=1.6,<2"]
        dev = [{ include-group = "docs" }]
    """
    needed = list(lock.read_needed(pyproject))
    assert sorted(map(str, needed)) == ["matplotlib>=3.8", "mkdocs<2,>=1.6", "numpy>=1.26"]
    digest = "0" * 64
    text = lock.render_lock({"numpy": ("1.26.0", digest), "mkdocs": ("2.0", digest)})
    assert sorted(lock.find_faults(text, needed)) == [
        "matplotlib is not in requirements.lock: run scripts/lock.py",
        "mkdocs 2.0 in the lock is not <2,>=1.6: run scripts/lock.py",
    ]
    for more in ("numpy==2.0\n", "--index-url x\n", f"a @ b \\\n    --hash=sha256:{digest}\n"):
        (fault,) = lock.find_faults(text + more, needed)
        assert "lines that scripts/lock.py does not write" in fault


def test_every_package_that_users_get_has_a_lowest_version_to_test_with() -> None:
    lock = import_module("scripts.lock")
    lowest = lock.list_lowest((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    assert {"numpy==1.26", "pyarrow==15", 'backports.zstd==1; python_version < "3.14"'} <= set(lowest)
    assert all(re.match(r"[\w.-]+==[\d.]+(;|$)", line) for line in lowest)
    shown = call(sys.executable, str(SCRIPTS / "lock.py"), "--lowest").stdout
    assert shown.splitlines() == lowest
    with pytest.raises(ValueError, match="numpy has no lower bound"):
        lock.list_lowest('[project]\nname = "a"\ndependencies = ["numpy"]\noptional-dependencies = {}\n')


CORPUS = REPOSITORY / "tests" / "golden" / "corpus.txt"
# Small traces: of memory, of a graph, and one that lost its kernels. The slow test below reads all.
SMALL = ("mem", "graph_whole", "sdpa22")


def said_of(text):
    """Return what a corpus says of each trace, by its path."""
    return {block.partition("  exit ")[0]: block for block in re.split(r"\n(?=\S)", text.strip())}


def run_corpus(folder, *options):
    command = [sys.executable, str(SCRIPTS / "corpus.py"), str(folder), *map(str, options)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_what_is_said_of_small_traces_is_what_was_read(tmp_path):
    """After a change of sentences: scripts/corpus.py traces --expect tests/golden/corpus.txt --write, and read it."""
    for name in SMALL:
        shutil.copy(REPOSITORY / "traces" / f"{name}.sqlite.xz", tmp_path)
    (tmp_path / "broken.sqlite").write_text("not a database")
    done = run_corpus(tmp_path, "--expect", tmp_path / "said.txt", "--write")
    assert done.returncode == 0, done.stderr
    said, expected = said_of((tmp_path / "said.txt").read_text()), said_of(CORPUS.read_text())
    assert "exit 0" not in said.pop("broken.sqlite")
    assert len(said) == len(SMALL)
    assert said == {name: expected[name] for name in said}


def test_a_changed_sentence_of_a_corpus_is_a_difference(tmp_path):
    shutil.copy(REPOSITORY / "traces" / "mem.sqlite.xz", tmp_path)
    (tmp_path / "said.txt").write_text("mem.sqlite.xz  exit 0\n    Something else was said.\n")
    done = run_corpus(tmp_path, "--expect", tmp_path / "said.txt")
    assert done.returncode == 1
    assert "-    Something else was said." in done.stderr
    head, *lines = done.stdout.splitlines()
    assert re.fullmatch(r"mem\.sqlite\.xz  exit 0  \d+\.\d s", head)
    assert lines[0].startswith("    The GPU is busy for "), "and what was found stands below"


@pytest.mark.slow
def test_what_is_said_of_every_trace_is_what_was_read():
    done = run_corpus(REPOSITORY / "traces", "--expect", CORPUS)
    assert done.returncode == 0, done.stderr


def test_the_shapes_of_the_serving_study_are_those_of_the_models() -> None:
    study = load("measure_serving")
    found = study.shapes(is_quick=False)
    assert found["Llama 3.1 8B", "chunk"]["mask"] == "window:all:0"
    assert found["Gemma 3 27B, local", "decode"]["mask"] == "window:1023:all"
    assert found["Gemma 3 27B, local", "prefill"] == {
        "heads": 32, "kv_heads": 16, "head_dim": 128, "batch": 1, "seq": 4096, "kv_seq": 4096,
        "mask": "window:1023:0", "causal": False, "dtype": "bf16",
    }  # fmt: skip
    assert found["DeepSeek-V3", "decode"]["head_dim_v"] == 512
    assert {fields["causal"] for key, fields in found.items() if key[1] == "prefill"} == {True, False}
    assert len(found) == 11


def test_bounds_are_counted_over_all_studies() -> None:
    bounds = import_module("scripts.studies.bounds")
    told = [each for study in bounds.STUDIES for each in bounds.read_study(study)]
    assert {"pageable-copy", "no-tensor-cores", "fp32-messages", "launch-bound"} <= {each.code for each in told}
    assert all(each.low_ms <= each.predicted_ms <= each.high_ms for each in told)
    # Nine of ten, by bounds that still say something.
    assert sum(each.is_inside for each in told) >= 0.9 * len(told)
    widths = [(each.high_ms - each.low_ms) / each.predicted_ms for each in told if each.predicted_ms]
    assert statistics.median(widths) <= 0.72
    whole = next(line for line in bounds.bounds_table().splitlines() if line.startswith("| all |"))
    # What holds without rules that were made after a study stands beside what holds with them.
    assert whole.startswith(f"| all | {len(told)} | {sum(each.is_inside for each in told)} | 57 |")
    assert "| `alloc-in-loop` |" in bounds.bounds_table()
