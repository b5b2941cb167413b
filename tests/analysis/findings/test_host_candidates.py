"""What the host could do less of: compiling, other work by the range it is in, and loops over small pieces."""

from dataclasses import replace

import numpy as np
import pytest

from nsysprof.analysis.findings import list_findings
from nsysprof.analysis.findings.host_candidates import list_host_candidates
from nsysprof.analysis.findings.list_findings import plain_step
from nsysprof.analysis.findings.waits import TAKE_OUT
from nsysprof.analysis.overview.summarize import summarize
from nsysprof.app.analyze import analyze_trace
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.analysis.findings.test_line_of_code import sampled
from tests.analysis.findings.test_waits import NONZERO, REDUCE
from tests.analysis.programs import MS, OF_TORCH, US, Program
from tests.builders.operator_steps import Launched, analyze_steps, tensor


def test_compiling_before_a_module_is_loaded_belongs_to_the_load(findings):
    program = Program()
    for _ in range(8):
        begin = program.now
        program.launch(500 * US)
        program.host(30 * MS)
        program.call("cuLibraryLoadData", 40 * US)
        program.launch(500 * US, "compiled")
        program.step(begin)
    (item,) = findings(program.builder).items
    assert (item.code, item.count) == ("module-load", 1)
    assert item.saving_ns == pytest.approx(29.5 * MS, rel=0.02)
    assert "in 1 call and in the 30.0 ms before" in item.text


def test_cudnn_attention_that_is_built_for_each_length_is_told_to_use_flash(findings):
    program = Program()
    for _ in range(8):
        begin = program.now
        program.host(30 * MS)
        program.call("cuLibraryLoadData", 40 * US)
        program.launch(500 * US, "cudnn_generated_fort_native_sdpa_sm90_flash_fprop")
        program.step(begin)
    (item,) = findings(program.builder).items
    assert "FLASH_ATTENTION" in item.next_step


def test_host_work_is_a_finding_for_each_range_that_has_much_of_it(findings):
    program = Program()
    for _ in range(8):
        begin = program.now
        program.host(20 * MS)
        program.launch(1 * MS, OF_TORCH)
        program.step(begin + 1, "load")
        checked = program.now
        program.host(5 * MS)
        program.launch(1 * MS)
        program.step(checked, "check")
        program.step(begin)
    items = findings(program.builder).items
    assert [(item.code, item.range) for item in items] == [("host-bound", "load"), ("host-bound", "check")]
    # What is left of a step are the 2 ms of the GPU.
    assert items[0].saving_ns == pytest.approx(20 * MS, rel=0.02)
    assert items[1].saving_ns == pytest.approx(3 * MS, rel=0.02)
    assert "DataLoader" in items[0].next_step
    assert "DataLoader" not in items[1].next_step


def test_a_loop_over_small_pieces_is_told_apart_from_the_launches_of_the_model(findings):
    program = Program()
    for _ in range(6):
        begin = program.now
        for _ in range(4):
            for layer in range(25):
                program.host(28 * US)
                program.launch(15 * US, f"layer_{layer}")
        looped = program.now
        for _ in range(500):
            program.host(8 * US)
            program.launch(2 * US, "add")
        program.step(looped, "small")
        program.step(begin)
    items = findings(program.builder).items
    assert [(item.code, item.range, item.count) for item in items] == [
        ("launch-bound", "small", 500), ("launch-bound", "step", 100),
    ]  # fmt: skip
    # Each takes the host 10 us; the GPU runs them while the host issues the layers of the next step.
    assert items[0].saving_ns == pytest.approx(500 * 10 * US, rel=0.1)


def test_of_many_loops_over_small_pieces_those_with_most_launches_are_told_one_by_one(findings, monkeypatch):
    """500 such ranges in 4 MB took 1.6 GB."""
    monkeypatch.setattr("nsysprof.analysis.findings.host_candidates._MOST_STORMS", 2)
    program = Program()
    for _ in range(6):
        begin = program.now
        for number in range(6):
            looped = program.now
            for _ in range(150 + 50 * number):
                program.host(8 * US)
                program.launch(2 * US, f"add_{number}")
            program.step(looped, f"small_{chr(97 + number)}")
        program.step(begin)
    items = findings(program.builder).items
    assert [(item.range, item.count) for item in items] == [("small_d", 900), ("small_f", 400), ("small_e", 350)]


def test_the_work_for_a_range_does_not_grow_with_the_number_of_ranges(findings, monkeypatch):
    """60,000 names of ranges in 9.6 MB took a minute, because each was compared with every call's."""

    class Name(str):
        __slots__ = ()
        compared = 0

        def __eq__(self, other: object) -> bool:
            Name.compared += 1
            return str(self) == other

        __hash__ = str.__hash__

    program = Program()
    for number in range(400):
        begin = program.now
        program.host(300 * US)
        program.launch(2 * US)
        program.step(begin, "r" + "x" * number)
    seen = []
    with monkeypatch.context() as patch:
        patch.setattr(list_findings, "list_host_candidates", lambda situation: seen.append(situation) or ())
        findings(program.builder)
    names = np.array([Name(name) for name in seen[0].range_of], dtype=object)
    list(list_host_candidates(replace(seen[0], range_of=names, range_before=names)))
    assert len(set(names)) >= 400
    assert Name.compared < 20 * len(names)


def test_launches_that_only_tracing_makes_slow_are_not_accused(findings):
    """Under the profiler the host takes 11 us for 10 us of the GPU, without it 6.5 us."""
    program = Program(launch_ns=7 * US)
    for _ in range(6):
        begin = program.now
        for number in range(300):
            program.host(4 * US)
            program.launch(10 * US, f"kernel_{number % 30}")
        program.step(begin)
    assert findings(program.builder).items == ()


@pytest.mark.parametrize(("every", "code"), [(1, ["host-bound"]), (3, [])])
def test_without_steps_only_host_work_that_comes_back_is_a_finding(findings, every, code):
    program = Program()
    for number in range(60):
        if number % every == 0:
            program.host(2 * MS)
        program.launch(100 * US)
    assert [item.code for item in findings(program.builder).items] == code


def test_the_profiler_is_no_work_of_the_program(findings):
    program = Program()
    for _ in range(8):
        begin = program.now
        program.launch(300 * US)
        program.builder.overhead(program.now, program.now + 5 * MS)
        program.host(5 * MS)
        program.launch(300 * US)
        program.step(begin)
    assert findings(program.builder).items == ()


def test_advice_on_launches_knows_graphs_and_collectives(trace_path):
    """Who replays graphs already is not told to, and a graph of a rank's step must hold its collectives."""
    for name, says in (("h200-ranges/layers-cudagraphs", "already"), ("h200-programs/fsdp-even_rank0", "NCCL 2.9.6")):
        with open_trace(trace_path(name)) as trace:
            items = summarize(read_tables(trace)).findings.items
        steps = [item.next_step for item in items if item.code == "launch-bound"]
        assert steps
        assert all(says in step and "reduce-overhead" not in step for step in steps)


def test_the_time_of_launched_work_leaves_out_collectives_which_wait_for_other_ranks(findings):
    program = Program(launch_ns=20 * US)
    for _ in range(8):
        begin = program.now
        for number in range(60):
            program.launch(5 * US, f"kernel_{number % 7}")
        program.launch(300 * US, "ncclDevKernel_AllReduce_Sum_f32_RING_LL")
        program.step(begin)
    item = next(each for each in findings(program.builder).items if each.code == "launch-bound")
    assert "and the GPU 300 us to run without the collectives." in item.text


def step_with_waits(waits, read=None):
    """Return steps of short kernels with so many waits, and when the host waits.

    read: the kernel whose value is read.
    """
    program, waited = Program(launch_ns=10 * US), []
    for _ in range(8):
        begin = program.now
        for number in range(80):
            program.launch(2 * US, "at::native::elementwise_kernel" if number % 2 else "at::native::reduce_kernel")
            if waits and number % (80 // waits) == 80 // waits - 1:
                start = program.now
                if read:
                    program.launch(2 * US, read)
                    program.copy(8, 2 * US, kind=2)
                else:
                    program.wait()
                waited.append((start, program.now))
        program.step(begin)
    return program.builder, waited


@pytest.mark.parametrize(
    ("waits", "read", "says", "advises"),
    [
        (0, None, "to run.", "Replay the step as a CUDA graph"),
        (1, None, "waits for the GPU there once a step; that must stay outside", "torch.cuda.synchronize()"),
        (4, None, "there 4 times a step; no CUDA graph can hold that.", "Take the waits out first. Remove torch.cuda"),
        (1, REDUCE, "once a step to read values, as .item() does; that must stay", "Instead of the wait: Keep values"),
        (
            4,
            NONZERO,
            "4 times a step to read sizes of masks as indices",
            "Take the waits out first. x[mask], nonzero()",
        ),
    ],
)
def test_a_graph_is_not_advised_where_the_host_waits_between_launches(findings, waits, read, says, advises):
    builder, _ = step_with_waits(waits, read)
    item = next(item for item in findings(builder).items if item.code == "launch-bound")
    assert says in item.text
    assert advises in item.next_step


def test_the_line_of_the_waits_is_named(tmp_path):
    builder, waited = step_with_waits(4, NONZERO)
    samples = sampled(waited, 1, every=1 * US)
    with open_trace(builder.write(tmp_path / "t.sqlite")) as trace:
        found = summarize(read_tables(trace), stacks=samples).findings
    item = next(item for item in found.items if item.code == "launch-bound")
    assert item.text.endswith("Most of these waits are at train.py:12.")


def test_the_operator_that_counts_a_mask_has_the_line_of_the_wait(tmp_path):
    nonzero = Launched("aten::nonzero", NONZERO, 2_000, [tensor((4,), 8)], [], (), "moe.py:9", reads=8)
    items = analyze_steps(tmp_path, [nonzero] * 40, host_ns=10_000).findings.items
    (sync,) = [item for item in items if item.code == "sync"]
    (launches,) = [item for item in items if item.code == "launch-bound"]
    assert sync.location == "moe.py:9"
    assert launches.text.endswith("Most of these waits are at moe.py:9.")


def test_a_program_without_torch_is_told_to_take_its_waits_out_first():
    graph = "Replay the step as a CUDA graph: torch.cuda.graph."
    assert plain_step("launch-bound", f"{TAKE_OUT} x. {graph}").startswith("Take the waits out first. Leave out copies")
    assert plain_step("launch-bound", graph).startswith("Do more in a kernel, or capture the loop as a CUDA graph")


def test_a_trace_without_steps_is_told_of_none(trace_path):
    """A benchmark of collectives was said to wait for values 354 times a step."""
    items = analyze_trace(trace_path("h200-ranges/nccl")).findings.items
    (item,) = [item for item in items if item.code == "launch-bound"]
    assert ", and the host waits for the GPU there 354 times; no CUDA graph can hold that." in item.text


@pytest.mark.parametrize(("cells", "is_named"), [(20, True), (2, False)])
def test_a_loop_over_cells_is_told_of_the_whole_sequence(findings, cells, is_named):
    program = Program(launch_ns=20 * US)
    for _ in range(8):
        begin = program.now
        for number in range(60):
            name = "lstm_cell_forward<float, float, int, 1>" if number < cells else f"gemm{number}"
            program.launch(3 * US, f"void at::native::{name}")
        program.step(begin)
    item = next(item for item in findings(program.builder).items if item.code == "launch-bound")
    assert ("torch.nn.LSTM" in item.next_step) == is_named
