"""What a traced block knows of waits and findings, from traces whose clock is known."""

import pytest

from nsysprof.api.traced_block import TracedBlock, UnknownNumberError, _fill
from nsysprof.errors import UsageError
from tests.analysis.programs import US, Program


def block_of(tmp_path, *, waits):
    program = Program()
    begin = program.now
    for _ in range(50):
        program.host(5 * US)
        program.launch(100 * US)
        if waits:
            program.wait("cudaStreamSynchronize_v3020")
            program.host(100 * US)
    program.wait()
    program.builder.range(begin, program.now, "pytest::x", kind=60)
    block = TracedBlock("pytest::x")
    _fill(block, program.builder.write(tmp_path / "t.sqlite"))
    return block


def test_waits_are_counted_without_the_one_at_the_end(tmp_path):
    block = block_of(tmp_path, waits=True)
    block.assert_syncs(50)
    with pytest.raises(AssertionError, match="50 waits for the GPU, expected 0"):
        block.assert_syncs(0)
    with pytest.raises(AssertionError, match="found sync"):
        block.assert_no_finding("sync", "pageable-copy")
    block.assert_no_finding("pageable-copy")


def test_a_clean_block_has_no_finding(tmp_path):
    block = block_of(tmp_path, waits=False)
    block.assert_syncs(0)
    block.assert_no_finding()
    with pytest.raises(UsageError, match=r"'slow' is not known\. Codes here: pageable-copy"):
        block.assert_no_finding("slow")
    with pytest.raises(UsageError, match="which a block does not record"):
        block.assert_no_finding("memory-fragmentation")


def test_what_is_unknown_is_not_passed():
    with pytest.raises(UnknownNumberError):
        TracedBlock("x").assert_no_finding("sync")
    with pytest.raises(UnknownNumberError):
        TracedBlock("x").assert_syncs(0)
