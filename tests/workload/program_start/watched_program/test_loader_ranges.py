"""Each batch that a program takes from a data loader is a range, and batches stay the same."""

import subprocess
import sys

import pytest

from nsysprof.trace.table_readers.layer_ranges import LOAD
from nsysprof.workload.program_start.watched_program.loader_ranges import NAME

PROGRAM = """
import torch
from torch.utils.data import DataLoader, IterableDataset
from nsysprof.workload.program_start.watched_program.loader_ranges import mark_batches
import torch.utils.data.dataloader

class Numbers(IterableDataset):
    def __init__(self, end, fault):
        self.end, self.fault = end, fault

    def __iter__(self):
        yield from range(self.end)
        if self.fault:
            raise ValueError(self.fault)

events = []
mark_batches(torch.utils.data.dataloader, events.append, lambda: events.append("pop"))
for workers in (0, 1):
    for end, fault in ((4, ""), (2, "a fault")):
        events.clear()
        loader = DataLoader(Numbers(end, fault), batch_size=2, num_workers=workers)
        try:
            print([batch.tolist() for batch in loader])
        except ValueError as error:
            print("raised", "a fault" in str(error))
        print(events.count("nsysprof load"), events.count("pop"), events[::2].count("pop"))
"""


def test_each_batch_opens_and_closes_one_range():
    pytest.importorskip("torch")
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    # The end of the data is a range, too.
    assert done.stdout.splitlines() == ["[[0, 1], [2, 3]]", "3 3 0", "raised True", "2 2 0"] * 2


def test_the_reader_knows_the_name():
    assert NAME == LOAD
