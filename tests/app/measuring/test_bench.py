"""What a bench says that measured nothing."""

from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from nsysprof.app.measuring.bench import nothing_measured


@pytest.mark.parametrize(
    ("statuses", "said"),
    [
        ([("not_run", ""), ("not_run", "")], "The time ended before one of 2 cases was measured."),
        ([("not_run", ""), ("out_of_memory", "9 GiB")], "None of 2 cases could be measured. out_of_memory: 9 GiB"),
    ],
)
def test_the_reason_why_nothing_was_measured_is_told(statuses, said):
    table = pd.DataFrame(statuses, columns=["status", "reason"]).assign(median_ns=float("nan"))
    error = nothing_measured(SimpleNamespace(table=table), Path("out"))
    assert (error.text, bool(error.next_step)) == (said, True)
    assert nothing_measured(SimpleNamespace(table=table.assign(median_ns=[1.0, None])), Path("out")) is None
