"""JUnit XML of a comparison: a test case for each rule of the gate and each case or range that it was held against."""

from __future__ import annotations

from xml.etree import ElementTree

from nsysprof.comparison import Comparison, Outcome
from nsysprof.report.compare_tables import verdict_line
from nsysprof.report.escape import clean


def render_junit(found: Comparison) -> str:
    """A regression is a failure, what is inconclusive an error; each rule without either is a test that passed."""
    counts = dict.fromkeys(Outcome, 0)
    suite = ElementTree.Element("testsuite", {"name": "nsysprof compare"})
    for result in found.gate:
        if not result.findings:
            ElementTree.SubElement(suite, "testcase", {"classname": "nsysprof.compare", "name": _xml(result.rule)})
            counts[Outcome.PASS] += 1
        for finding in result.findings:
            name = _xml(f"{result.rule} {finding.where}".strip())
            case = ElementTree.SubElement(suite, "testcase", {"classname": "nsysprof.compare", "name": name})
            tag = "failure" if finding.outcome is Outcome.REGRESSION else "error"
            fault = ElementTree.SubElement(case, tag, {"message": _xml(finding.text), "type": finding.outcome.value})
            fault.text = _xml(f"{finding.text} -> {finding.next_step}" if finding.next_step else finding.text)
            counts[finding.outcome] += 1
    suite.set("tests", str(sum(counts.values())))
    suite.set("failures", str(counts[Outcome.REGRESSION]))
    suite.set("errors", str(counts[Outcome.INCONCLUSIVE]))
    ElementTree.SubElement(suite, "system-out").text = _xml(verdict_line(found))
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(suites, encoding="unicode")}\n'


def _xml(text: str) -> str:
    """Without what XML 1.0 cannot hold: control characters, and the last two code points of the plane."""
    return clean(text, 1000).translate({0xFFFE: 0xFFFD, 0xFFFF: 0xFFFD})
