import pytest

from nsysprof.app.measuring.program_request import RecordRequest
from nsysprof.app.measuring.record import _check, _result
from nsysprof.capture.live.record_part import RecordedPart
from nsysprof.capture.self_check.size_watch import StopReason
from nsysprof.errors import OutputError, UsageError


def result(tmp_path, **facts):
    part = RecordedPart(tmp_path, survived=True, **facts)
    return _result(part, tmp_path, None, [], [], None)


def test_a_full_disk_is_a_failure_and_a_reached_size_is_none(tmp_path):
    failure = result(tmp_path, stopped=StopReason.DISK).failure
    assert isinstance(failure, OutputError)
    assert "kept" in failure.text
    assert result(tmp_path, stopped=StopReason.SIZE, is_full=True).failure is None


def test_a_part_without_an_end_is_refused():
    with pytest.raises(UsageError):
        _check(RecordRequest())


def test_a_size_alone_says_how_long_a_part_is():
    _check(RecordRequest(max_bytes=1))
