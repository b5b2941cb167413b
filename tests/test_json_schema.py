"""What --json prints is what the published schemas say."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from nsysprof.cli import app
from scripts.json_schema import command_schemas
from tests.app.test_read_history import database
from tests.builders.build_trace import TraceBuilder

jsonschema = pytest.importorskip("jsonschema")
SCHEMAS = Path(__file__).parents[1] / "docs/schemas"


@pytest.fixture
def printed(tmp_path):
    """Return a function that runs a command with --json and returns what it printed, held against its schema."""

    def run(schema, *arguments, code=0):
        done = CliRunner().invoke(app, [*map(str, arguments), "--json"])
        assert done.exit_code == code, done.output
        data = json.loads(done.stdout)
        jsonschema.validate(data, json.loads((SCHEMAS / f"{schema}.json").read_text(encoding="utf-8")))
        return data

    return run


@pytest.mark.parametrize("name", sorted(command_schemas()))
def test_each_schema_is_a_schema(name):
    jsonschema.Draft202012Validator.check_schema(command_schemas()[name])


def test_every_command_takes_json_and_says_the_version_of_its_format():
    commands = typer.main.get_command(app).commands
    without = [
        name for name, command in commands.items() if "--json" not in {o for p in command.params for o in p.opts}
    ]
    assert without == []
    schemas = command_schemas()
    assert {name for name in commands if name not in schemas} == {"demo"}, "it prints what analyze prints"
    assert [name for name, schema in schemas.items() if "format_version" not in schema["required"]] == []


def test_each_schema_is_listed_for_readers():
    listed = (SCHEMAS.parent / "json.md").read_text(encoding="utf-8")
    assert [name for name in command_schemas() if f"(schemas/{name}.json)" not in listed] == []


def test_an_analysis_holds_every_table(printed, trace_path, tmp_path):
    data = printed("analyze", "analyze", trace_path("inputs"), "--no-figures", "--out", tmp_path / "o")
    assert sum(row["instances"] for row in data["kernels"]) == data["totals"]["kernel_count"] == 93
    assert {row["range"] for row in data["ranges"]} >= {"RUN::math::S512", "RUN::flash::S512"}
    assert data["findings"] == data["causes"]["findings"]
    (device,) = data["devices"]
    assert sum(row["idle_ns"] for row in data["idle"] if not row["range"]) == device["gpu_idle_ns"]
    assert len(data["range_instances"]) == sum(row["instances"] for row in data["ranges"])


def test_what_a_trace_does_not_tell_is_null(printed, tmp_path):
    builder = TraceBuilder()
    builder.call(0, 10, 1, "cudaGraphLaunch_v10000")
    builder.kernel(20, 70, 2)
    builder.range(0, 100, "step")
    trace = builder.write(tmp_path / "t.sqlite")
    data = printed("analyze", "analyze", trace, "--no-figures", "--out", tmp_path / "o")
    assert data["idle"] is None
    assert data["idle_instances"] is None
    assert data["findings"] is None


def test_many_traces(printed, trace_path, tmp_path):
    traces = trace_path("ddp_rank0"), trace_path("ddp_rank1")
    data = printed("analyze-ranks", "analyze", *traces, "--no-figures", "--by-order", "--out", tmp_path / "o")
    assert data["ranks_read"] == len(data["per_rank"]) == 2


def test_a_question(printed, trace_path):
    data = printed("whatif", "whatif", trace_path("ddp_rank0"), "--kernel", "gemm=0.5")
    assert data["together"]["step_ns"] <= data["replayed_ns"]


def test_a_comparison(printed, trace_path):
    data = printed("compare", "compare", trace_path("inputs"), trace_path("inputs"))
    assert data["outcome"] is None


def test_a_history(printed, tmp_path):
    path = database(tmp_path / "all.db", [("a", "2026-01-01T00:00", "h", True)], [("a", "flash", 512, 100)])
    (case,) = printed("history", "history", path)["cases"]
    assert (case["name"], case["points"][0]["median_ns"]) == ("flash S=512", 100)


def test_an_export(printed, trace_path, tmp_path):
    data = printed("export", "export", trace_path("mem"), "--chrome", tmp_path / "t.json.gz")
    assert set(data["formats"]) == {"chrome"}
