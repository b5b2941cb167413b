"""Each batch that a program takes from a data loader is a range, and batches stay the same."""

import subprocess
import sys

import pytest

from nsysprof.trace.table_readers.layer_ranges import LOAD
from nsysprof.workload.program_start.watched_program.loader_ranges import NAME

PROGRAM = """
import sys
import torch
from torch.utils.data import DataLoader, IterableDataset
from nsysprof.workload.program_start.watched_program.loader_ranges import mark_batches
import torch.utils.data.dataloader

class Numbers(IterableDataset):
    def __iter__(self):
        yield from range(int(sys.argv[2]))
        if sys.argv[3]:
            raise ValueError(sys.argv[3])

events = []
mark_batches(torch.utils.data.dataloader, events.append, lambda: events.append("pop"))
loader = DataLoader(Numbers(), batch_size=2, num_workers=int(sys.argv[1]))
try:
    print([batch.tolist() for batch in loader])
except ValueError as error:
    print("raised", "a fault" in str(error))
print(events.count("nsysprof load"), events.count("pop"), events[::2].count("pop"))
"""


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(("numbers", "fault", "result"), [
    (4, "", ["[[0, 1], [2, 3]]", "3 3 0"]),  # the end of the data is a range, too
    (2, "a fault", ["raised True", "2 2 0"]),
])  # fmt: skip
def test_each_batch_opens_and_closes_one_range(workers, numbers, fault, result):
    pytest.importorskip("torch")
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, str(workers), str(numbers), fault]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == result


def test_the_reader_knows_the_name():
    assert NAME == LOAD
