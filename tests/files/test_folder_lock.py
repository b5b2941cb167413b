import pytest

from nsysprof.errors import OutputError
from nsysprof.files.folder_lock import hold_lock, join_lock


def test_a_second_run_is_refused_until_the_first_has_ended(tmp_path):
    folder = tmp_path / "out"
    with hold_lock(folder):
        with pytest.raises(OutputError, match="Another run"), hold_lock(folder):
            pytest.fail("two runs have one folder")
        with hold_lock(tmp_path / "other"):
            pass
    with hold_lock(folder):
        pass
    assert list(tmp_path.iterdir()) == [], "the lock's file goes with it"


def test_processes_of_one_job_share_a_lock_and_the_last_has_it_alone(tmp_path):
    folder = tmp_path / "out"
    with join_lock(folder) as first:
        assert first.is_alone
        first.share()
        with join_lock(folder) as second:
            assert second.is_alone is False
            assert not first.try_alone()
            with pytest.raises(OutputError), hold_lock(folder):
                pytest.fail("a run came between the processes of a job")
        assert first.try_alone()
    assert list(tmp_path.iterdir()) == []
