"""A range is found by its path or its name, and what belongs to it is what the whole analysis says of it."""

import pytest

from nsysprof.analysis.overview.summarize import SummaryOptions, run_summary
from nsysprof.analysis.parts.find_part import WantedPart
from nsysprof.errors import TraceError, UsageError
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.builders.build_trace import TraceBuilder


def analyze(path, wanted=None):
    with open_trace(path) as trace:
        options = SummaryOptions(part=None if wanted is None else WantedPart(wanted))
        return run_summary(read_tables(trace), options).analysis


def repeated_names(tmp_path):
    """Write a range `inner` on its own, and one in `outer`, which also holds another one in itself."""
    builder = TraceBuilder()
    builder.range(0, 1_000, "inner")
    builder.range(2_000, 9_000, "outer")
    builder.range(3_000, 6_000, "inner")
    builder.range(4_000, 5_000, "inner")
    for number, at in enumerate((100, 2_100, 3_100, 4_100), start=1):
        builder.launch(at, number)
    return builder.write(tmp_path / "names.sqlite")


@pytest.mark.parametrize(
    ("wanted", "instances", "kernels"),
    [("inner", 2, 3), ("outer", 1, 3), ("outer > inner", 1, 2), ("outer > inner > inner", 1, 1)],
)
def test_a_name_means_all_its_places_and_a_path_means_one(tmp_path, wanted, instances, kernels):
    part = analyze(repeated_names(tmp_path), wanted)
    assert (part.part.range, part.part.instances) == (wanted, instances)
    assert part.totals.kernel_count == part.totals.launch_count == kernels
    assert part.coverage.attributed_kernels == part.coverage.kernels == kernels


@pytest.mark.parametrize(
    ("wanted", "hint"),
    [
        ("iner", "Nearest: inner"),
        ("OUTER", "Nearest: outer"),
        ("outer > iner", "Nearest: outer > inner"),
        ("zzz", "It has inner, outer"),
    ],
)
def test_an_unknown_range_names_the_nearest(tmp_path, wanted, hint):
    with pytest.raises(UsageError, match="has no range") as error:
        analyze(repeated_names(tmp_path), wanted)
    assert error.value.next_step.startswith(hint)


def test_a_trace_without_ranges_says_so(tmp_path):
    builder = TraceBuilder()
    builder.launch(100, 1)
    with pytest.raises(UsageError) as error:
        analyze(builder.write(tmp_path / "none.sqlite"), "step")
    assert "no range at all" in error.value.next_step


def test_a_trace_without_calls_does_not_say_what_belongs_to_a_range(tmp_path):
    builder = TraceBuilder()
    builder.range(0, 1_000, "range")
    path = builder.write(tmp_path / "calls.sqlite")
    with open_trace(path) as trace:
        tables = read_tables(trace)
    assert tables.calls is None, "no call was recorded"
    with pytest.raises(TraceError, match="no CUDA API calls"):
        analyze(path, "range")


def test_a_shortened_name_of_the_terminal_and_a_domain_are_understood(trace_path):
    trace = trace_path("h200-programs/train-all")
    names = ("cub::DeviceSelect::UniqueByKey", "CCCL:cub::DeviceSelect::UniqueByKey", "CCCL:cub::Devic…queByKey")
    parts = [analyze(trace, name) for name in names]
    assert {part.totals.kernel_count for part in parts} == {16}
    assert parts[2].part.range == "CCCL:cub::DeviceSelect::UniqueByKey"


@pytest.mark.parametrize("wanted", ["step3", "step#"])
def test_a_counted_range_is_found_by_one_name_and_by_its_family(trace_path, wanted):
    part = analyze(trace_path("ddp_rank0"), wanted)
    assert part.part.instances == {"step3": 1, "step#": 20}[wanted]
    forward = part.ranges[part.ranges["range"] == "forward"]
    assert forward["instances"].tolist() == [part.part.instances]
