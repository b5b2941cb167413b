from nsysprof.analysis.overview.self_check import inspect_recording
from nsysprof.notes import Severity
from nsysprof.trace.schema import RecordedKinds

EVERYTHING = dict(kernels=True, gpu_work=True, launches=True, ranges=True, calls=True, diagnostics=[])


def notes(**changes):
    return list(inspect_recording(RecordedKinds(**{**EVERYTHING, **changes})).notes)


def test_a_good_recording_has_no_notes():
    assert notes() == []
    assert notes(ranges=False) == []
    assert notes(kernels=False, launches=False) == []


def test_launches_without_kernels_are_lost_data():
    (note,) = notes(kernels=False, gpu_work=False)
    assert (note.code, note.severity) == ("no-kernels", Severity.ERROR)


def test_nothing_recorded_is_said_with_what_helps():
    (note,) = notes(kernels=False, gpu_work=False, launches=False, ranges=False, calls=False)
    assert (note.code, note.severity) == ("nothing-recorded", Severity.WARNING)
    assert "trace-fork-before-exec" in note.next_step


def test_what_nsys_reports_as_lost():
    (note,) = notes(diagnostics=[(2, "Not all CUDA events might have been collected."), (1, "fine")])
    assert (note.code, note.severity) == ("events-lost", Severity.WARNING)


def test_cuda_not_started_means_something_only_without_kernels():
    said = [(2, "CUDA profiling might have not been started correctly.")]
    assert notes(diagnostics=said) == []
    assert [note.code for note in notes(diagnostics=said, kernels=False, launches=False)] == ["collection-failed"]
