"""The workflows hold what the documentation promises: pinned actions, tokens that may do little, no injected text."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer

from nsysprof.cli import app

yaml = pytest.importorskip("yaml", reason="comes with the group docs")
ROOT = Path(__file__).parents[1]
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
FILES = sorted({*(ROOT / ".github").rglob("*.yml")} - {*FORMS})
GATE = ROOT / ".github" / "actions" / "gate" / "action.yml"
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}")


def steps_of(data):
    jobs = data.get("jobs", {"gate": data.get("runs", {})})
    return [step for job in jobs.values() for step in job["steps"]]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name + "/" + path.name)
def test_actions_are_pinned_by_commit_and_no_input_is_part_of_a_script(path):
    steps = steps_of(yaml.safe_load(path.read_text(encoding="utf-8")))
    assert steps
    for step in steps:
        if "uses" in step:
            assert PINNED.fullmatch(step["uses"]), step["uses"]
        assert "${{" not in step.get("run", "").replace("${{ matrix.", "").replace("${{ github.action_path", "")


@pytest.mark.parametrize("path", [path for path in FORMS if path.stem != "config"], ids=lambda path: path.stem)
def test_a_form_asks_for_a_bundle_and_gives_commands_that_exist(path):
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert {"name", "description", "body"} <= form.keys()
    fields = {field["id"]: field for field in form["body"] if field["type"] != "markdown"}
    assert "nsysprof bundle TRACE" in fields["bundle"]["attributes"]["description"]
    assert all(field["attributes"]["label"] for field in fields.values())
    commands = set(re.findall(r"nsysprof ([a-z]+)", path.read_text(encoding="utf-8")))
    assert commands & {"bundle", "doctor", "analyze"}
    for text in re.findall(r"`nsysprof ([a-z]+)", path.read_text(encoding="utf-8")):
        assert text in typer.main.get_command(app).commands


def test_holes_in_security_are_no_issues():
    config = yaml.safe_load((ROOT / ".github/ISSUE_TEMPLATE/config.yml").read_text(encoding="utf-8"))
    (link,) = config["contact_links"]
    assert link["url"].endswith("/security/advisories/new")


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (citation["title"], citation["version"]) == (project["name"], project["version"])
    assert citation["authors"] == project["authors"]
    assert citation["license"] in project["license"]


def test_the_workflow_in_the_documentation_is_pinned_and_reads_only():
    page = (ROOT / "docs" / "compare.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"^```yaml\n(.*?)^```", page, re.M | re.S)
    data = yaml.safe_load(text)
    assert data["permissions"] == {"contents": "read"}
    used = [step["uses"].removesuffix(" # v4.2.2") for step in steps_of(data) if "uses" in step]
    assert [name for name in used if not PINNED.fullmatch(name)] == ["nsysprof/nsysprof/.github/actions/gate@COMMIT"]
    inputs = yaml.safe_load(GATE.read_text(encoding="utf-8"))["inputs"]
    gate = next(step for step in steps_of(data) if "gate@" in step.get("uses", ""))
    assert set(gate["with"]) <= set(inputs)
    assert "runs the code of the pull request" in page


def test_ci_tests_the_lowest_and_the_newest_packages():
    job = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))["jobs"]["test"]
    matrix, environment = job["strategy"]["matrix"], job["steps"][-1]["env"]
    assert matrix["packages"] == ["newest"]
    assert matrix["include"] == [{"python": "3.11", "packages": "lowest"}]
    assert environment["LOWEST"] == "${{ matrix.packages == 'lowest' && '1' || '0' }}"
    setup = (ROOT / "scripts/setup").read_text(encoding="utf-8")
    assert setup.index("lock.py --lowest") < setup.index("--dev ]"), "for both of its steps"


RELEASE = ROOT / ".github" / "workflows" / "release.yml"
# What each job of a release may do beside reading. None of them runs code of this repository.
MAY_WRITE = {
    "provenance": {"id-token": "write", "attestations": "write"},
    "pypi": {"id-token": "write"},
    "release": {"contents": "write"},
    "pages": {"pages": "write", "id-token": "write"},
}


def release_jobs():
    return yaml.safe_load(RELEASE.read_text(encoding="utf-8"))["jobs"]


def test_workflows_read_and_run_on_machines_of_github_and_only_a_release_may_write():
    workflows = [path for path in FILES if path.parent.name == "workflows"]
    assert workflows
    for path in workflows:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert data["permissions"] == {"contents": "read"}
        more = {name: job["permissions"] for name, job in data["jobs"].items() if "permissions" in job}
        assert more == (MAY_WRITE if path == RELEASE else {})
        for job in data["jobs"].values():
            machines = [job["runs-on"]]
            if machines == ["${{ matrix.machine }}"]:
                machines = job["strategy"]["matrix"]["machine"]
            assert all(machine.startswith("ubuntu-") for machine in machines)


def test_a_release_has_wheels_of_both_processors_and_the_sources_and_knows_no_secret():
    jobs = release_jobs()
    assert "secrets." not in RELEASE.read_text(encoding="utf-8")
    assert jobs["wheels"]["strategy"]["matrix"]["machine"] == ["ubuntu-24.04", "ubuntu-24.04-arm"]
    paths = [step["with"]["path"] for step in steps_of({"jobs": jobs}) if "upload-artifact" in step.get("uses", "")]
    assert paths == ["dist/*.whl", "dist/*.tar.gz", "nsysprof-sbom.cdx.json"]
    options = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert options["tool"]["cibuildwheel"]["build"] == "cp311-manylinux_*"
    packed = options["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert {"nsysprof", "hatch_build.py"} <= set(packed)


def test_nothing_is_published_without_a_pushed_tag_and_what_may_write_runs_none_of_our_code():
    jobs = release_jobs()
    for name in MAY_WRITE:
        assert jobs[name]["if"] == "github.event_name == 'push' && github.ref_type == 'tag'"
        used = [step["uses"].partition("@")[0] for step in jobs[name]["steps"] if "uses" in step]
        assert "actions/checkout" not in used
        commands = [step["run"].split()[:2] for step in jobs[name]["steps"] if "run" in step]
        assert commands == ([["gh", "release"]] if name == "release" else [])
    assert [name for name in jobs if "if" in jobs[name]] == list(MAY_WRITE)
    publishing = ("pypa/gh-action-pypi-publish", "actions/deploy-pages", "actions/attest-build-provenance")
    for action in publishing:
        (user,) = [name for name, job in jobs.items() if action in str(job["steps"])]
        assert user in MAY_WRITE
    assert jobs["pypi"]["environment"]["name"] == "pypi"
    assert set(jobs["pypi"]["needs"]) == {"provenance", "docs"}
    assert set(jobs["provenance"]["needs"]) == {"wheels", "source", "sbom"}


@pytest.mark.parametrize(("tag", "expected"), [("v{}", 0), ("v{}.1", 1), ("{}", 1)])
def test_a_tag_names_the_version_of_the_package(tag, expected):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    jobs = release_jobs()
    assert all(jobs[name]["needs"] == "version" for name in ("wheels", "source", "docs"))
    step = jobs["version"]["steps"][-1]
    assert step["if"] == "github.ref_type == 'tag'"
    names = {"GITHUB_REF_NAME": tag.format(project["version"]), "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    command = ["bash", "-e", "-c", step["run"]]
    done = subprocess.run(command, cwd=ROOT, env=names, capture_output=True, text=True, check=False)
    assert done.returncode == expected, done.stderr
    assert (f"pyproject.toml says {project['version']}" in done.stderr) is bool(expected)


def test_every_supported_python_is_tested_and_gets_the_wheel():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))["jobs"]
    named = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert len(named) == 4
    for job in ("test", "wheel"):
        assert jobs[job]["strategy"]["matrix"]["python"] == named


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "expected"), [("fail", 3), ("pass", 0)])
def test_the_gate_runs_and_says_its_verdict(tmp_path, policy, expected):
    script = steps_of(yaml.safe_load(GATE.read_text(encoding="utf-8")))[1]["run"]
    command = tmp_path / "bin" / "nsysprof"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m nsysprof "$@"\n')
    command.chmod(0o755)
    grid = ROOT / "analysis" / "h200-tune" / "flex"
    environment = {
        **os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}", "RUNNER_TEMP": str(tmp_path),
        "GITHUB_OUTPUT": str(tmp_path / "output"), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
        "BASELINE": str(grid), "CANDIDATE": str(grid), "FAIL_ON": "launches:+1", "INCONCLUSIVE": policy,
    }  # fmt: skip
    done = subprocess.run(["bash", "-e", "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == expected, done.stderr
    assert "verdict=inconclusive" in (tmp_path / "output").read_text()
    assert "nsysprof" in (tmp_path / "summary").read_text()
    assert (tmp_path / "compare.xml").stat().st_size > 0
