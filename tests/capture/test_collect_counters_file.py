"""counters.csv: what is written is read back, and what is damaged is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysprof.capture.collect import COUNTERS, read_counters, write_counters
from nsysprof.errors import TraceError
from nsysprof.results.kernel_counters import COUNTED_COLUMNS, CountedKernel, Run

VALUES = st.none() | st.floats(0, 1e15, allow_nan=False)
# What controls a terminal or begins a formula is replaced when a table is written.
TEXTS = st.text(st.characters(categories=("L", "N")), max_size=30)
KERNELS = st.builds(
    CountedKernel,
    run=st.sampled_from(Run),
    range=TEXTS,
    position=st.integers(0, 100),
    name=TEXTS,
    symbol=TEXTS,
    kernel=TEXTS,
    grid=st.just("(1, 1, 1)"),
    block=st.just("(128, 1, 1)"),
    gpu=TEXTS,
    passes=st.none() | st.integers(1, 50),
    values=st.fixed_dictionaries(dict.fromkeys(COUNTED_COLUMNS, VALUES)),
    more=st.fixed_dictionaries({}, optional={"smsp__inst_executed.sum": st.floats(0, 1e12)}),
)


@given(kernels=st.lists(KERNELS, max_size=5))
def test_written_and_read_back(tmp_path_factory, kernels):
    folder = tmp_path_factory.mktemp("c")
    assert read_counters(write_counters(folder, kernels)) == kernels


def test_a_counter_of_a_later_version_is_not_missed(tmp_path):
    path = tmp_path / COUNTERS
    path.write_text(
        "run,range,position,kernel,name,symbol,grid,block,gpu,passes,time_ns\ntraffic,R,0,K,k,s,g,b,GPU,1,7\n"
    )
    (kernel,) = read_counters(path)
    assert kernel.values["time_ns"] == 7
    assert kernel.values["l2_bytes"] is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a,b\n1,2\n",
        "run,range,position,kernel,name,symbol,grid,block,gpu,passes,time_ns\nother,R,0,K,k,s,g,b,GPU,1,7\n",
        "run,range,position,kernel,name,symbol,grid,block,gpu,passes,time_ns\ntraffic,R,x,K,k,s,g,b,GPU,1,7\n",
        "run,range,position,kernel,name,symbol,grid,block,gpu,passes,time_ns\ntraffic,R,0,K,k,s,g,b,GPU,1,nan\n",
        "run,range,position,kernel,name,symbol,grid,block,gpu,passes,time_ns\ntraffic,R,0\n",
        "\0\0\0",
    ],
)
def test_damage_is_refused(tmp_path, text):
    path = tmp_path / COUNTERS
    path.write_text(text)
    with pytest.raises(TraceError):
        read_counters(path)
