from types import SimpleNamespace

import pytest

from nsysprof.app.measuring import record as module
from nsysprof.app.measuring.program_request import RecordRequest
from nsysprof.app.measuring.record import record_windows
from nsysprof.errors import DataLossError, InterruptedCaptureError, ToolFailedError


@pytest.fixture
def windows(tmp_path, monkeypatch):
    """`windows(failures, keep)`: the failure, the folders that are left, and the watched seconds of each part."""

    def run(failures, keep):
        asked, shown = [], []

        def record(request, _progress, *, is_held):
            asked.append(request.watch_s)
            folder = tmp_path / f"recording-{len(asked)}"
            folder.mkdir()
            failure = failures[len(asked) - 1]
            return SimpleNamespace(folder=folder, failure=failure, survived=failure != "ended")

        monkeypatch.setattr(module, "record", record)
        failure = record_windows(RecordRequest(seconds=1.0), keep, shown.append)
        assert len(shown) == len(failures)
        return failure, sorted(int(path.name[10:]) for path in tmp_path.iterdir()), asked

    return run


def test_the_last_parts_are_kept_until_ctrl_c(windows):
    assert windows([None] * 4 + [InterruptedCaptureError("", "")], 3) == (None, [3, 4, 5], [0.0] * 5)


def test_the_end_of_the_program_is_no_failure_and_a_loss_is_told_at_the_end(windows):
    lost = DataLossError("lost", "")
    assert windows([None, lost, None, "ended"], 10)[:2] == (lost, [1, 2, 3, 4])


def test_what_fails_ends_it(windows):
    failed = ToolFailedError("no", "")
    assert windows([None, failed], 10)[:2] == (failed, [1, 2])
