import hashlib
import json
import tomllib

from nsysprof.report.formats import html
from nsysprof.report.formats.html import content_security_policy, json_for_script, read_asset
from tests.conftest import REPOSITORY

VENDOR = REPOSITORY / "nsysprof" / "report" / "vendor"


def test_json_cannot_end_its_script_and_is_the_same_data():
    data = {"a": "</script><!--<script>&amp;\u2028\ud800", "b": [1, None]}
    text = json_for_script(data)
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == data


def test_a_page_without_scripts_may_run_none():
    assert "script-src 'none'" in content_security_policy([], ["body {}"])


def test_what_is_vendored_is_what_its_sums_say_and_has_its_licences():
    sums = dict(reversed(line.split()) for line in (VENDOR / "SHA256SUMS").read_text().splitlines())
    assert sums.keys() == {path.name for path in VENDOR.glob("*.js")}
    for name, digest in sums.items():
        data = (VENDOR / name).read_bytes()
        assert hashlib.sha256(data).hexdigest() == digest
        assert b"</script" not in data.lower()
    assert {path.name for path in VENDOR.glob("LICENSE*")} == {
        "LICENSE-echarts", "LICENSE-sortable", "LICENSE-tslib", "LICENSE-zrender",
    }  # fmt: skip
    assert all(name in (VENDOR / "README.md").read_text() for name in sums)


def test_the_metadata_names_every_licence_of_what_is_vendored():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    named = {path for pattern in project["license-files"] for path in REPOSITORY.glob(pattern)}
    assert {*VENDOR.glob("LICENSE*"), *VENDOR.glob("NOTICE*"), REPOSITORY / "LICENSE"} == named
    for licence in ("MIT", "Apache-2.0", "BSD-3-Clause", "0BSD", "Unlicense"):
        assert licence in project["license"].split(" AND ")
    for text in (path.read_text() for path in named - {REPOSITORY / "LICENSE"}):
        assert "--" + ">" not in text  # it stands in a comment of every page


def test_our_own_scripts_do_not_end_themselves():
    for name in ("templates/report.js", "templates/timeline.js", "templates/report.css"):
        assert "</s" not in read_asset(name).lower()
    assert html.__file__.endswith("report/formats/html.py")
