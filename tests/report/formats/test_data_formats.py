from dataclasses import replace

from nsysprof.report.formats.data_formats import render_sarif
from tests.report import fixed_results


def test_each_finding_is_a_result_at_its_line():
    log = render_sarif(fixed_results.findings(), "t.sqlite")
    (run,) = log["runs"]
    first, second = run["results"]
    assert first["ruleId"] == run["tool"]["driver"]["rules"][first["ruleIndex"]]["id"] == "sync"
    place = first["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "train.py"}, "region": {"startLine": 42}}
    assert second["locations"][0] == {"physicalLocation": {"artifactLocation": {"uri": "t.sqlite"}}}
    assert [each["properties"]["location_share_pct"] for each in (first, second)] == [92.0, None]
    assert first["rank"] > second["rank"]


def test_unknown_is_not_nothing():
    (run,) = render_sarif(None, "t.sqlite", "nsys lost events")["runs"]
    assert run["results"] == []
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is False
    assert invocation["exitCodeDescription"] == "findings are unknown, because nsys lost events"


def test_a_native_function_is_no_file():
    found = fixed_results.findings()
    native = replace(found, items=(replace(found.items[0], location="train::step (trainer)"),))
    ((result,),) = (run["results"] for run in render_sarif(native, "t.sqlite")["runs"])
    (location,) = result["locations"]
    assert location["physicalLocation"] == {"artifactLocation": {"uri": "t.sqlite"}}
    assert "train::step (trainer)" in [each["name"] for each in location["logicalLocations"]]


def test_names_with_special_characters_are_references():
    found = fixed_results.findings()
    first = found.items[0]
    for location, uri, line in (
        ("/w/my #1 100%.py:7", "/w/my%20%231%20100%25.py", 7),
        ("C:\\w\\train.py:8", "C%3A/w/train.py", 8),
        ("odd.py:0", "Report%201.sqlite", None),
        ("odd.py:\N{SUPERSCRIPT TWO}", "Report%201.sqlite", None),
        ("lone\udcff.py:3", "lone%3F.py", 3),
    ):
        log = render_sarif(replace(found, items=(replace(first, location=location),)), "Report 1.sqlite")
        place = log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"] == uri
        assert place.get("region", {}).get("startLine") == line
