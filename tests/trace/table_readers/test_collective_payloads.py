"""Payloads of NVTX ranges as nsys 2025.3 exports them, damaged ones, and those of other libraries."""

import struct

import pytest

from nsysprof.trace.table_readers.collective_payloads import decode, fields_of, keep_known

# The schema of ncclAllReduce and that of ncclRecv, with the types that NCCL 2.28 gives them.
ROWS = [
    (1, 0x1000005, "NCCL communicator ID", 18, None),
    (1, 0x1000005, "Message size [bytes]", 22, 8),
    (1, 0x1000005, "Reduction operation", 0x1000014, 16),
    (1, 0x100000A, "NCCL communicator ID", 18, None),
    (1, 0x100000A, "Message size [bytes]", 22, 8),
    (1, 0x100000A, "Peer rank", 5, 16),
    (2, 7, "a secret of the user", 18, 0),
]
# As recorded: 1 MiB in communicator 3252964167400671733; what follows the reduction operation was never written.
ALL_REDUCE = bytes.fromhex(
    "0100000000000000050000010000000018000000000000002000000000000000f5c9fde0acd9242d000010000000000000000000fd7f0000"
)
SCHEMAS = fields_of(ROWS)


def test_a_recorded_payload_is_decoded():
    assert decode(ALL_REDUCE, SCHEMAS) == {"communicator": 3252964167400671733, "message_bytes": 1 << 20}


@pytest.mark.parametrize(
    "payload",
    [b"", ALL_REDUCE[:31], ALL_REDUCE[:40], ALL_REDUCE.replace(b"\5\0\0\1", b"\6\0\0\1"), b"\xff" * 64],
)
def test_damaged_and_foreign_payloads_say_nothing(payload):
    assert decode(payload, SCHEMAS) == {}
    assert keep_known(payload, SCHEMAS, {}) is None


def test_what_is_kept_holds_numbers_alone_and_no_id_of_a_communicator():
    numbers = {}
    kept = keep_known(ALL_REDUCE, SCHEMAS, numbers)
    assert decode(kept, SCHEMAS) == {"communicator": 1, "message_bytes": 1 << 20}
    assert kept[-8:] == bytes(8)
    assert keep_known(ALL_REDUCE, SCHEMAS, numbers) == kept


def test_another_librarys_payload_is_left_out():
    foreign = struct.pack("<IIIIQQQ", 2, 0, 7, 0, 8, 32, 4711)
    assert decode(foreign, SCHEMAS) == {}
    assert keep_known(foreign, SCHEMAS, {}) is None
