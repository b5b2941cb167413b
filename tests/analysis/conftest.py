"""What the tests of findings share."""

import pytest

from nsysprof.analysis.overview.summarize import summarize
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables


@pytest.fixture
def findings(tmp_path):
    """Return a function that gives the findings of a built trace."""

    def run(builder):
        path = tmp_path / "t.sqlite"
        path.unlink(missing_ok=True)
        with open_trace(builder.write(path)) as trace:
            return summarize(read_tables(trace)).findings

    return run
