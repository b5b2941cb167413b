"""Render a report's gate as JUnit XML: a test case for each rule and each case or range that it was applied to."""

from __future__ import annotations

from xml.etree import ElementTree

from nsysprof.report.document import Gate, Lines, Report, list_parts
from nsysprof.report.formats.escape import clean
from nsysprof.results.checks import Outcome


def render_junit(report: Report) -> str:
    """Return the gate's result: a regression is a failure, an inconclusive rule an error, any other rule has passed."""
    counts = dict.fromkeys(Outcome, 0)
    suite = ElementTree.Element("testsuite", {"name": "nsysprof compare"})
    results = [result for part in list_parts(report) if isinstance(part, Gate) for result in part.results]
    for result in results:
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
    verdicts = [
        line for part in list_parts(report) if isinstance(part, Lines) and part.is_verdict for line in part.texts
    ]
    suite.set("tests", str(sum(counts.values())))
    suite.set("failures", str(counts[Outcome.REGRESSION]))
    suite.set("errors", str(counts[Outcome.INCONCLUSIVE]))
    ElementTree.SubElement(suite, "system-out").text = _xml(" ".join(verdicts))
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(suites, encoding="unicode")}\n'


def _xml(text: str) -> str:
    """Return a text without the characters that XML 1.0 cannot contain."""
    return clean(text, 1000).translate({0xFFFE: 0xFFFD, 0xFFFF: 0xFFFD})
