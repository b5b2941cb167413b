import pytest

from nsysprof.analysis.overview.diagnostics import explain_messages
from nsysprof.app.analyze import analyze_trace
from nsysprof.notes import Severity, split_losses
from tests.analysis.programs import US, Program
from tests.builders.build_trace import OTHER_PID, PID, TraceBuilder

IMPORT = (
    "Error when processing events: Source ID=\nType=ErrorInformation (18)\n Error information:\n"
    "RuntimeError (120)\n  Error text\nCannot find string for an exterior index. Index: 33, Process ID: /proc/77\n"
)


def said(*messages, lacks_work=False):
    remarks = split_losses(explain_messages(list(messages), has_kernels=True, lacks_work=lacks_work))
    return [(note.code, note.severity, note.text) for note in remarks.notes]


def test_the_reason_of_a_failed_import_stands_lines_below():
    """At severity 2, with a first line that says nothing: 43 of 68 kernels had no name."""
    ((code, severity, text),) = said((2, IMPORT))
    assert (code, severity) == ("import-failed", Severity.ERROR)
    assert "Cannot find string for an exterior index" in text
    assert "/proc" not in text


def test_any_line_of_a_message_is_read():
    ((code, _, text),) = said((2, "Session\nsome detail\nNot all CUDA events might have been collected."))
    assert code == "events-lost"
    assert text.endswith("Session Not all CUDA events might have been collected.")


COUNTS = (
    (1, "Number of CUPTI events produced: \t8248, CUPTI buffers: 50."),
    (1, "Number of CUDA events collected: \t446."),
)


def test_far_fewer_events_than_cupti_produced_tell_how_much_is_missing_where_something_is():
    ((code, severity, text),) = said(*COUNTS, lacks_work=True)
    _, (own, _, _) = said(*COUNTS, (2, "Not all CUDA events might have been collected."))
    assert own == "events-lost"
    assert (code, severity) == ("events-lost", Severity.ERROR)
    assert "8,248" in text
    assert "446" in text


def test_what_nsys_leaves_out_of_sound_traces_is_no_loss():
    """As in public traces of JAX and of CUDA C++, in which every launch has its kernel."""
    for produced, collected in ((289, 27), (1806, 1205), (20176, 15706), (7888, 2647), (7641, 1371)):
        messages = (
            (1, f"Number of CUPTI events produced: {produced}, x"),
            (1, f"Number of CUDA events collected: {collected}."),
        )
        assert said(*messages) == []


def test_counts_are_those_of_the_process_so_far_and_are_not_added_up():
    counts = [(1, f"Number of CUPTI events produced: {count}, x") for count in (11_577, 11_582)]
    counts.append((1, "Number of CUDA events collected: 11554."))
    assert said(*counts, lacks_work=True) == []


def test_paths_are_left_out_and_words_with_a_slash_stay():
    text = "IP/TCP and SLI/NVLink failed for /home/alice/x.py, 'C:\\Users\\alice\\x' and logs/alice/run"
    ((_, _, shown),) = said((3, text))
    assert shown == "nsys says: IP/TCP and SLI/NVLink failed for <path> '<path>' and <path>"


def test_a_cut_is_marked():
    ((_, _, shown),) = said((3, "failed " + "x " * 400))
    assert shown.endswith("…")
    assert len(shown) < 330


def test_a_helper_process_is_not_held_against_the_one_that_uses_cuda(tmp_path):
    """A shell or a compiler that the program starts records no CUDA, and nsys says so of each."""
    builder = TraceBuilder("2025.3")
    builder.gpu(0, cuda=0)
    builder.launch(0, 1)
    for pid, text in (
        (OTHER_PID, "Failed to collect CUDA events of the process."),
        (OTHER_PID, "Installed CUDA driver version (13.0) is not supported by this build."),
        (PID, "Could not start the CUDA profiler."),
        (0, "Not all NVTX events might have been collected."),
    ):
        builder.put("DIAGNOSTIC_EVENT", severity=3, text=text, globalPid=pid)
    notes = analyze_trace(builder.write(tmp_path / "t.sqlite")).notes
    assert {note.code for note in notes} >= {"driver-newer-than-nsys", "collection-failed", "events-lost"}
    assert not any("Failed to collect" in note.text for note in notes)


def test_a_message_counts_where_no_process_is_known_to_use_cuda(tmp_path):
    builder = TraceBuilder("2025.3")
    builder.range(0, 10, "step")
    builder.put("DIAGNOSTIC_EVENT", severity=3, text="Failed to collect CUDA events.", globalPid=PID)
    notes = analyze_trace(builder.write(tmp_path / "t.sqlite")).notes
    assert "collection-failed" in {note.code for note in notes}


def recorded_counts(path, *pairs, launches=40, orphans=0):
    """Analyze a sound trace with nsys' counts of events, in the order in which nsys wrote them."""
    program = Program()
    program.builder = TraceBuilder("2025.3")
    program.builder.gpu(0, cuda=0)
    for _ in range(launches):
        program.launch(100 * US)
        program.wait()
    for number in range(orphans):
        program.builder.kernel(program.now + number * 10 * US, program.now + number * 10 * US + US, 90_000 + number)
    for produced, collected in pairs:
        texts = [f"CUPTI events produced: \t{produced}, x"]
        texts += [] if collected is None else [f"CUDA events collected: \t{collected}."]
        for text in texts:
            program.builder.put("DIAGNOSTIC_EVENT", severity=1, text=f"Number of {text}", globalPid=PID)
    return analyze_trace(program.builder.write(path))


@pytest.mark.parametrize(
    "pairs", [[(7641, 1371)], [(7888, 2647)], [(11577, None), (11582, 11356)]], ids=["C++", "JAX", "Windows"]
)
def test_calls_that_nsys_does_not_trace_are_no_loss(tmp_path, pairs):
    """As in four public traces whose launches all have their kernels: their findings were withheld."""
    analysis = recorded_counts(tmp_path / "t.sqlite", *pairs)
    assert "events-lost" not in {note.code for note in analysis.notes}
    assert analysis.findings is not None


def test_kernels_without_launches_are_the_evidence_that_the_counts_explain(tmp_path):
    assert "events-lost" in {
        note.code for note in recorded_counts(tmp_path / "t.sqlite", (7641, 1371), orphans=20).notes
    }


def test_the_counts_of_a_process_include_those_before_them(tmp_path):
    (note,) = [
        note
        for note in recorded_counts(tmp_path / "t.sqlite", (9000, 300), (9100, 400), orphans=20).notes
        if note.code == "events-lost"
    ]
    assert ("9,100" in note.text, "400" in note.text) == (True, True)
