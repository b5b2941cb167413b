"""A sentence counts in the steps whose time a replay gives, so that its numbers fit what the finding saves."""

import lzma
import re
from pathlib import Path

import pytest

from nsysprof.analysis.findings.situation import counted, number_text
from nsysprof.analysis.overview.summarize import summarize
from nsysprof.results.findings import LEAST_SHARE
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.analysis.programs import MS, US, Program

TRACES = Path(__file__).resolve().parents[3] / "traces"
UNITS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}
TIME = r"(\d[\d,.]*) (ns|us|ms|s)\b"


def test_the_first_replayed_step_only_prepares_and_is_in_no_sentence(findings):
    program = Program()
    for number in range(16):
        begin = program.now
        program.host(20 * MS if number % 4 == 0 else 5 * MS)
        program.launch(10 * US)
        program.step(begin)
    found = findings(program.builder)
    (item,) = (each for each in found.items if each.code == "host-bound")
    (told,) = times(item.text.split(", in ")[0])
    assert told == pytest.approx(item.saving_ns, rel=0.01)
    assert "in 1 stretch " in item.text


def test_counts_have_a_noun_and_few_digits():
    texts = [counted(each, "stretch", "stretches") for each in (1, 2, 0.25, 1.75, 3999.4)]
    assert texts == ["1 stretch", "2 stretches", "0.2 stretches", "1.8 stretches", "3,999 stretches"]
    assert number_text(10.4) == "10"


# Whose rank waits for another, whose steps replay graphs, and that has no steps.
@pytest.mark.parametrize("name", ["ddp_rank0", "h200-ranges/layers-cudagraphs", "mem"])
def test_sentences_name_no_more_than_there_is(trace_path, name):
    assert_sentences_hold(trace_path(name))


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(TRACES.rglob("*.sqlite.xz")), ids=lambda path: str(path.relative_to(TRACES)))
def test_sentences_of_every_trace_name_no_more_than_there_is(tmp_path, path):
    unpacked = tmp_path / "t.sqlite"
    unpacked.write_bytes(lzma.decompress(path.read_bytes()))
    assert_sentences_hold(unpacked)


def times(text):
    return [float(number.replace(",", "")) * UNITS[unit] for number, unit in re.findall(TIME, text)]


def assert_sentences_hold(path):
    """Assert that the numbers of each sentence fit together, and fit what is saved."""
    with open_trace(path) as trace:
        found = summarize(read_tables(trace)).findings
    if found is None:
        return
    waited = sum(item.saving_ns for item in found.items if item.code == "collective-wait")
    for item in found.items:
        assert 0 <= item.saving_low_ns <= item.saving_ns <= item.saving_high_ns
        # Behind larger problems a small one counts, but never next to nothing.
        assert item.saving_ns >= min(LEAST_SHARE * found.recorded_ns, 20_000) * 0.99
        if item.code != "collective-wait" and item.saving_high_ns <= waited:
            assert item.saving_low_ns == 0
        # What a sentence splits up adds up to no more than the whole.
        split = re.search(rf"{TIME} \(([^)]* (?:anyway|findings))\)", item.text)
        if split:
            whole = times(split[0])[0]
            assert sum(times(split[3])) <= 1.001 * whole
            assert item.saving_ns == pytest.approx(whole - sum(times(split[3])), abs=0.06 * whole)
        elif item.code == "host-bound":
            # A stretch of the first step may still hold up the second, because the GPU is behind the host.
            assert item.saving_ns <= 1.2 * times(item.text)[0]
