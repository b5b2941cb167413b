import pytest

from nsysprof.capture.user_program.record_program import fork_notes

TORCH = "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use"
CUPY = "cupy_backends.cuda.api.runtime.CUDARuntimeError: cudaErrorInitializationError: initialization error"


@pytest.mark.parametrize(("said", "named"), [(TORCH, "Cannot re-initialize CUDA"), (CUPY, "cudaErrorInit")])
def test_a_process_that_was_forked_after_its_parent_used_cuda(tmp_path, said, named):
    log = tmp_path / "stderr.log"
    log.write_text(f"Traceback (most recent call last):\n{said}\n")
    (note,) = fork_notes(log)
    assert note.code == "forked-after-cuda"
    assert f"printed '{named}" in note.text


def test_other_failures_are_no_matter_of_forks(tmp_path):
    log = tmp_path / "stderr.log"
    assert fork_notes(log) == []
    log.write_text("RuntimeError: CUDA error: an illegal memory access was encountered")
    assert fork_notes(log) == []
