"""An agent that speaks the protocol gets bounded answers about the traces of one folder, and nothing else."""

import asyncio
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import typer

from nsysprof.app.agents.mcp_server import describe_tools, make_server
from nsysprof.app.agents.trace_tools import TraceTools
from nsysprof.app.inputs.reading_requests import WhatIfRequest
from nsysprof.app.whatif import what_if
from nsysprof.cli import app
from nsysprof.errors import MissingToolError, TraceError, UsageError
from nsysprof.results.power_samples import power_beside
from tests.analysis.programs import MS, Program
from tests.builders.published_schema import as_published
from tests.conftest import REPOSITORY

mcp = pytest.importorskip("mcp")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two trainings, one of which waits, and with files that are nobody's business."""
    top = tmp_path_factory.mktemp("traces")
    for name, waits in (("sub/waiting", True), ("free", False)):
        program = Program()
        for _ in range(6):
            begin = program.now
            for number in range(30):
                program.launch(1 * MS, f"kernel{number}")
                if waits:
                    program.wait()
                    program.host(1 * MS)
            program.step(begin)
        (top / name).parent.mkdir(exist_ok=True)
        program.builder.write(top / f"{name}.sqlite")
    (top / "secret.txt").write_text("secret")
    (top.parent / "outside.sqlite").write_bytes((top / "free.sqlite").read_bytes())
    (top / "link.sqlite").symlink_to(top.parent / "outside.sqlite")
    return top


def ask(folder: Path, tool: str, **arguments: Any) -> Any:
    async def run() -> Any:
        async with mcp.Client(make_server(folder)) as client:
            return await client.call_tool(tool, arguments)

    return asyncio.run(run())


def answer(folder: Path, tool: str, **arguments: Any) -> Any:
    result = ask(folder, tool, **arguments)
    assert not result.is_error, result
    return result.structured_content


def test_what_an_agent_is_told_can_be_printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app(["mcp", str(folder), "--json"], standalone_mode=False)
    told = as_published("mcp", capsys.readouterr().out)
    assert told["format_version"] == 1
    assert "never instructions" in told["instructions"]
    schemas = {tool["name"]: tool["input_schema"] for tool in told["tools"]}
    assert {"list_traces", "findings", "compare", "whatif"} <= schemas.keys()
    assert schemas["findings"]["additionalProperties"] is False


def test_the_skill_names_the_tools_that_there_are(folder: Path) -> None:
    skill = (REPOSITORY / "SKILL.md").read_text(encoding="utf-8")
    _, head, body = skill.split("---\n", 2)
    assert [line.partition(":")[0] for line in head.splitlines()] == ["name", "description"]
    tools = {tool["name"] for tool in describe_tools(make_server(folder))["tools"]}
    listed = body.partition("## Which tool")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\d\. `(\w+)`|and `(\w+)`:", listed, re.M)) >= {("list_traces", ""), ("", "instances")}
    assert {name for pair in re.findall(r"^\d\. `(\w+)`|and `(\w+)`:", listed, re.M) for name in pair if name} <= tools
    assert [name for name in sorted(tools) if f"`{name}`" not in listed] == []
    for name in re.findall(r"`nsysprof ([a-z]+)", body):
        assert name in typer.main.get_command(app).commands


def test_every_tool_only_reads(folder: Path) -> None:
    async def run() -> Any:
        async with mcp.Client(make_server(folder)) as client:
            return (await client.list_tools()).tools

    tools = {tool.name: tool for tool in asyncio.run(run())}
    assert set(tools) == {"list_traces", "summarize", "findings", "kernels", "instances", "compare", "whatif"}
    assert all(tool.annotations.read_only_hint and tool.description for tool in tools.values())


def test_traces_of_the_folder_alone_are_listed(folder: Path) -> None:
    found = answer(folder, "list_traces")
    assert [row["trace"] for row in found["traces"]] == ["free.sqlite", "sub/waiting.sqlite"]


@pytest.mark.parametrize("name", ["nsys.sqlite", "x.parquet", "manifest.json", "deep/nsys.memory-1.pickle"])
def test_a_folder_from_which_a_link_leads_out_is_not_listed(folder: Path, tmp_path: Path, name: str) -> None:
    served = tmp_path / "served"
    capture = served / "cap"
    (capture / name).parent.mkdir(parents=True)
    (capture / "nsys.sqlite").write_bytes((folder / "free.sqlite").read_bytes())
    assert "cap" in [row["trace"] for row in answer(served, "list_traces")["traces"]]
    (capture / name).unlink(missing_ok=True)
    (capture / name).symlink_to(folder.parent / "outside.sqlite")
    assert "cap" not in [row["trace"] for row in answer(served, "list_traces")["traces"]]
    assert ask(served, "summarize", trace="cap").is_error


@pytest.mark.parametrize("trace", [".", "job"])
@pytest.mark.parametrize("name", ["manifest.json", "ranks/rank00001.sqlite", "ranks/deep/rank00001.sqlite"])
def test_no_tool_opens_a_folder_from_which_a_link_leads_out(
    folder: Path, tmp_path: Path, trace: str, name: str
) -> None:
    job = tmp_path / "served/job"
    (job / name).parent.mkdir(parents=True)
    (job / "rank0.sqlite").write_bytes((folder / "free.sqlite").read_bytes())
    (job / name).symlink_to(folder.parent / "outside.sqlite")
    result = ask(tmp_path / "served", "whatif", trace=trace, like_peers=0)
    assert result.is_error
    assert "has links to what lies outside of it" in result.content[0].text


def test_a_link_is_followed_through_the_folder_that_it_leads_to(folder: Path, tmp_path: Path) -> None:
    served = tmp_path / "served"
    (served / "cap").mkdir(parents=True)
    (served / "cap/nsys.sqlite").write_bytes((folder / "free.sqlite").read_bytes())
    (served / "other").mkdir()
    (served / "cap/ranks").symlink_to("../other")
    (served / "cap/around").symlink_to(".")
    (served / "loop").symlink_to("loop")
    assert "cap" in [row["trace"] for row in answer(served, "list_traces")["traces"]]
    (served / "other/rank0.sqlite").symlink_to(folder.parent / "outside.sqlite")
    names = [row["trace"] for row in answer(served, "list_traces")["traces"]]
    assert {name.rpartition("/")[2] for name in names} == {"nsys.sqlite"}
    assert ask(served, "summarize", trace="cap").is_error
    assert ask(served, "whatif", trace="loop", like_peers=0).is_error


def test_energy_beside_the_trace_of_a_rank_lies_in_the_folder_too(folder: Path, tmp_path: Path) -> None:
    trace = tmp_path / "served/rank0.sqlite"
    trace.parent.mkdir()
    trace.write_bytes((folder / "free.sqlite").read_bytes())
    assert [row["trace"] for row in answer(trace.parent, "list_traces")["traces"]] == ["rank0.sqlite"]
    power_beside(trace).symlink_to(folder / "secret.txt")
    assert answer(trace.parent, "list_traces")["traces"] == []
    assert ask(trace.parent, "summarize", trace="rank0.sqlite").is_error


def test_findings_and_what_a_change_would_give(folder: Path) -> None:
    found = answer(folder, "findings", trace="sub/waiting.sqlite")
    assert found["findings"][0]["code"] in ("sync", "host-bound")
    asked = answer(folder, "whatif", trace="sub/waiting.sqlite", changes=["no-host-work"], no_sync="all")
    assert asked["together"]["step_ns"] < asked["replayed_ns"]


def test_what_a_policy_and_a_rank_like_its_peers_would_give(folder: Path) -> None:
    refused = {
        "--like-peers": {"trace": "sub", "like_peers": 0, "changes": ["no-alloc"]},
        "does not contain the traces of several ranks": {"trace": "sub", "like_peers": 0},
        "is not a folder": {"trace": "free.sqlite", "like_peers": 0},
        "is not in this folder": {"trace": "../", "like_peers": 0},
        "links": {"trace": ".", "like_peers": 0},
        "'../outside.sqlite' is not in this folder": {"trace": "free.sqlite", "policy": "../outside.sqlite"},
        "secret.txt": {"trace": "free.sqlite", "policy": "secret.txt"},
        "No range has": {"trace": "free.sqlite", "launched_in": {"nowhere": 0.5}},
        "is not a change": {"trace": "free.sqlite", "changes": ["x" * 10_000]},
        "links ": {"trace": ".", "bucket_mb": 25},
        "is not in this folder.": {"trace": "../", "no_sync": "all", "ranks": 8},
        "is not a folder.": {"trace": "free.sqlite", "link_scale": 2.0},
        "cannot be replayed together": {"trace": "sub", "ranks": 8, "changes": ["no-alloc"]},
        "--link-scale -1 is not a change": {"trace": "sub", "link_scale": -1},
        "--ranks 1 is not a change": {"trace": "sub", "ranks": 1},
        "--bucket-mb 1e+09 is not a change": {"trace": "sub", "bucket_mb": 1e9},
        "with the factor -1": {"trace": "free.sqlite", "kernels": {"kernel": -1}},
        "with the factor 1e+09": {"trace": "free.sqlite", "launched_in": {"step": 1e9}},
    }
    for said, arguments in refused.items():
        result = ask(folder, "whatif", **arguments)
        assert result.is_error, said
        assert said in result.content[0].text
        assert len(result.content[0].text) < 1000
    asked = answer(folder, "whatif", trace="free.sqlite", launched_in={"step": 0.5})
    assert asked["together"]["step_ns"] < 0.6 * asked["replayed_ns"]


def test_a_rank_like_its_peers(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    for rank in range(2):
        source = REPOSITORY / f"traces/h200-programs/fsdp-slow0_rank{rank}.sqlite.xz"
        shutil.copy(source, tmp_path / f"job/rank{rank}.sqlite.xz")
    asked = answer(tmp_path, "whatif", trace="job", like_peers=0)
    assert asked["per"] == "job"
    assert asked["together"]["step_ns"] < asked["replayed_ns"]


def test_other_communication_of_a_job_is_what_the_command_answers(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    for rank in range(2):
        source = REPOSITORY / f"traces/h200-programs/fsdp-even_rank{rank}.sqlite.xz"
        shutil.copy(source, tmp_path / f"job/rank{rank}.sqlite.xz")
    asked = answer(tmp_path, "whatif", trace="job", link_scale=4.0, ranks=8)
    request = WhatIfRequest(tmp_path / "job", link_scale=4.0, ranks_count=8)
    assert asked == json.loads(json.dumps(what_if(request).found.to_json()))
    assert [row["option"] for row in asked["answers"]] == ["--link-scale 4", "--ranks 8"]
    # The same word is another change for a job and for one of its traces.
    for trace, said in (("job", "gradients are not reduced more often"), ("job/rank0.sqlite.xz", "of this trace")):
        result = ask(tmp_path, "whatif", trace=trace, no_sync="all")
        assert result.is_error and said in result.content[0].text


def test_rows_are_bounded_and_go_on(folder: Path) -> None:
    first = answer(folder, "kernels", trace="free.sqlite", limit=20)
    assert (len(first["kernels"]), first["total"], first["next_offset"]) == (20, 30, 20)
    rest = answer(folder, "kernels", trace="free.sqlite", offset=20, limit=10**6)
    assert (len(rest["kernels"]), rest["next_offset"]) == (10, None)
    steps = answer(folder, "instances", trace="free.sqlite", range_name="step", limit=2)
    assert [row["instance"] for row in steps["instances"]] == [0, 1]
    inside = answer(folder, "kernels", trace="free.sqlite", range_name="step")
    assert inside["total"] == 30
    assert answer(folder, "summarize", trace="free.sqlite")["totals"]["kernel_count"] == 180


def test_comparison(folder: Path) -> None:
    sides: dict[str, Any] = {"baseline": "free.sqlite", "candidate": "sub/waiting.sqlite", "ignore_conditions": True}
    tools = TraceTools(folder)
    found = tools.compare(**sides)
    assert "appeared" in {change["how"] for change in found["findings"]}
    assert found["said"][0].startswith("A step takes")
    assert found["left_out"]["kernels"] == 15  # of 30
    rest = tools.compare(**sides, part="kernels", offset=15)
    assert (len(rest["kernels"]), rest["next_offset"], rest["kernels_of"]) == (15, None, found["kernels_of"])
    inside = tools.compare(**sides, range_name="step", limit=2)
    assert (inside["total"], inside["kernels_of"]) == (30, "step")
    with pytest.raises(UsageError) as unknown:
        tools.compare(**sides, range_name="stpe")
    assert "Near names: 'step'" in unknown.value.next_step
    with pytest.raises(UsageError, match="'everything' is not a part"):
        tools.compare(**sides, part="everything")


def test_a_range_that_does_not_exist_is_an_error_with_near_names(folder: Path) -> None:
    for tool in ("kernels", "instances"):
        for name, said in (("Step", "'step'"), ("zzz", "most time: 'step'"), ("x" * 10_000, "'step'")):
            result = ask(folder, tool, trace="free.sqlite", range_name=name)
            assert result.is_error
            assert said in result.content[0].text
            assert len(result.content[0].text) < 500


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> TraceTools:
    """Return the tools for two traces of many ranges and kernels with very long names, and of counted steps."""
    top = tmp_path_factory.mktemp("large")
    for side in range(2):
        program = Program()
        for step in range(4):
            begin = program.now
            for number in range(120):
                inner = program.now
                program.launch(10_000 + 1000 * side, f"k{number}{'_of_a_long_name' * 30}")
                program.builder.range(inner, program.now, f"layer{chr(65 + number // 26)}{chr(65 + number % 26)}" * 40)
            program.step(begin, f"step{step}")
        program.builder.write(top / f"{side}.sqlite")
    return TraceTools(top)


def test_no_answer_is_larger_than_its_bound(large: TraceTools) -> None:
    sides: dict[str, Any] = {"baseline": "0.sqlite", "candidate": "1.sqlite", "ignore_conditions": True}
    overview = large.compare(**sides)
    asked = {
        "summarize": large.summarize("0.sqlite"),
        "findings": large.findings("0.sqlite"),
        "kernels": large.kernels("0.sqlite", limit=10**9),
        "kernels of steps": large.kernels("0.sqlite", "step#", limit=10**9),
        "compare": overview,
        "ranges": large.compare(**sides, part="ranges", limit=10**9),
        "changed kernels": large.compare(**sides, part="kernels", limit=10**9),
    }
    assert {name: len(json.dumps(each, indent=2)) > 30_500 for name, each in asked.items()} == dict.fromkeys(
        asked, False
    )
    assert overview["left_out"]["ranges"] > 90
    assert "part" in overview["how_to_see_more"]


def test_pages_join_to_the_whole_however_many_rows_fit(large: TraceTools) -> None:
    seen: list[str] = []
    offset: int | None = 0
    while offset is not None:
        found = large.kernels("0.sqlite", offset=offset, limit=10**9)
        seen += [row["label"] for row in found["kernels"]]
        assert len(found["kernels"]) < 120
        offset = found["next_offset"]
    assert len(seen) == len(set(seen)) == found["total"] == 120


def test_counted_ranges_can_be_asked_about_together(large: TraceTools) -> None:
    steps = large.instances("0.sqlite", "step#")
    assert [row["range"] for row in steps["instances"]] == ["step0", "step1", "step2", "step3"]
    joint = large.kernels("0.sqlite", "step#", limit=1)
    assert (joint["total"], joint["kernels"][0]["instances"], joint["kernels"][0]["avg_ns"]) == (120, 4, 10_000)
    assert large.kernels("0.sqlite", "step1", limit=1)["kernels"][0]["instances"] == 1


def test_the_traces_of_ranks_are_listed_one_by_one(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    for name in ("bundle.json", "manifest.json", "rank00000.sqlite.xz", "rank00001.sqlite.xz"):
        (tmp_path / "job" / name).write_bytes((REPOSITORY / "traces/h200-ddp" / name).read_bytes())
    rows = {row["trace"]: row["kind"] for row in answer(tmp_path, "list_traces")["traces"]}
    names = ("job/rank00000.sqlite.xz", "job/rank00001.sqlite.xz")
    assert {name: rows[name] for name in names} == dict.fromkeys(names, "trace")
    assert rows["job"] == "ranks"
    said = ask(tmp_path, "summarize", trace="job").content[0].text
    assert "job has the traces of several ranks" in said
    assert str(tmp_path) not in ask(tmp_path, "compare", baseline="job", candidate="none").content[0].text
    page = answer(tmp_path, "list_traces", limit=1)
    assert (page["total"], page["next_offset"]) == (len(rows), 1)


def test_an_argument_that_a_tool_does_not_have_is_refused(folder: Path) -> None:
    result = ask(folder, "kernels", trace="free.sqlite", range="step")
    assert result.is_error
    assert "range" in str(result.content)


@pytest.mark.parametrize("name", ["../outside.sqlite", "link.sqlite", "secret.txt", "/etc/passwd", "", "x" * 10_000])
def test_no_other_file_is_read(folder: Path, name: str) -> None:
    result = ask(folder, "summarize", trace=name)
    assert result.is_error
    assert "is not a trace of this folder" in result.content[0].text
    assert len(result.content[0].text) < 500


def test_a_wrong_folder_and_a_missing_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TraceError):
        make_server(tmp_path / "none")
    monkeypatch.setitem(__import__("sys").modules, "mcp.server.mcpserver", None)
    with pytest.raises(MissingToolError, match="mcp"):
        make_server(tmp_path)
