import numpy as np
import pytest

from nsysprof.trace.schema import MIGRATION
from tests.builders.random_tables import random_tables


@pytest.mark.parametrize("seed", range(20))
def test_work_by_start(seed):
    work = random_tables(np.random.default_rng(seed), 60).work
    order = np.argsort(work.start_ns, kind="stable")
    assert work.by_start.tolist() == order.tolist()
    assert work.by_start is work.by_start, "several stages take it"
    stays = work.kind_of != MIGRATION
    assert work.rows_by_start(stays).tolist() == order[stays[work.variant[order]]].tolist()
