"""Findings on programs with known faults: each is found, predicted by the clock that made it, and nothing else is."""

import pytest

from nsysprof.analysis.findings.kernel_candidates import FORWARD
from nsysprof.analysis.overview.summarize import summarize
from nsysprof.report.pages.analysis import findings_sections
from nsysprof.report.write import findings_json
from nsysprof.results.findings import CODES
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.analysis.programs import MS, OF_TORCH, US, Program, train
from tests.builders.build_trace import OTHER_TID


def test_a_clean_program_is_accused_of_nothing(findings):
    found = findings(train()[0])
    assert found.items == ()
    assert found.per == "step"
    assert found.replayed_ns == found.recorded_ns


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ("pageable-copy", "pageable-copy"),
        ("sync", "sync"),
        ("alloc-in-loop", "alloc-in-loop"),
        ("sleeping-loader", "host-bound"),
    ],
)
def test_each_fault_alone_is_found_and_its_saving_predicted(findings, fault, code):
    _, clean_ns = train()
    builder, faulty_ns = train(faults=(fault,))
    found = findings(builder)
    assert [item.code for item in found.items] == [code]
    (item,) = found.items
    # 256 MiB from pinned memory still take 5.4 ms where the clean program copies nothing.
    left = 256 * 2**20 / 24e9 * 1e9 if fault == "pageable-copy" else 0
    assert item.saving_ns == pytest.approx(faulty_ns - clean_ns - left, abs=0.05 * faulty_ns)
    assert 0 <= item.saving_low_ns <= item.saving_ns <= item.saving_high_ns
    assert item.per == "step"
    assert item.next_step


def test_bounds_hold_what_a_faster_or_slower_host_saves(findings):
    """It copies pageable memory in a fifth less time, or a quarter more; a sleep takes as long in each process."""
    (copy,) = findings(train(faults=("pageable-copy",))[0]).items
    assert copy.saving_low_ns <= 0.85 * copy.saving_ns
    assert copy.saving_high_ns >= 1.2 * copy.saving_ns
    (sleep,) = findings(train(faults=("sleeping-loader",))[0]).items
    assert sleep.saving_high_ns <= 1.1 * sleep.saving_ns


def test_all_faults_are_found_and_together_save_no_more_than_there_is(findings):
    faults = ("pageable-copy", "sync", "alloc-in-loop", "sleeping-loader")
    builder, faulty_ns = train(faults=faults)
    found = findings(builder)
    assert {item.code for item in found.items} == {"pageable-copy", "sync", "alloc-in-loop", "host-bound"}
    savings = [item.saving_ns for item in found.items]
    assert savings == sorted(savings, reverse=True)
    assert [item.rank for item in found.items] == [1, 2, 3, 4]
    _, clean_ns = train()
    left = 256 * 2**20 / 24e9 * 1e9
    assert sum(savings) <= found.together_ns + 10
    assert found.together_ns == pytest.approx(faulty_ns - clean_ns - left, abs=0.1 * faulty_ns)


def test_a_wait_that_saves_little_says_where_the_rest_is(findings):
    """The GPU works during most of each wait, so that without it the program is little faster."""
    program = Program()
    for _ in range(8):
        begin = program.now
        for _ in range(10):
            program.launch(2 * MS)
        program.wait()
        program.host(1 * MS)
        program.step(begin)
    (item,) = (each for each in findings(program.builder).items if each.code == "sync")
    assert item.saving_ns < 2 * MS
    assert item.text.startswith("The host waits for the GPU for 20.0 ms (19.0 ms while the GPU works anyway), in 1 ")
    # A wait for short work is all that its finding says.
    (item,) = (each for each in findings(train(faults=("alloc-in-loop",))[0]).items if each.code == "alloc-in-loop")
    assert "anyway" not in item.text


@pytest.mark.parametrize(("last", "is_found"), [(10, False), (18, True)])
def test_what_ends_with_the_first_steps_is_no_finding(findings, last, is_found):
    """DDP waits for its own measurements in the first ten iterations."""
    program = Program()
    for number in range(18):
        begin = program.now
        for _ in range(10):
            program.host(30 * US)
            program.launch(200 * US)
            if number < last:
                program.wait("cudaEventSynchronize_v3020")
        program.step(begin)
    assert ("sync" in [item.code for item in findings(program.builder).items]) == is_found


@pytest.mark.parametrize(
    ("where", "has_nccl", "is_found"),
    [("main", True, True), ("range", True, False), ("thread", True, False), ("thread", False, True)],
)
def test_what_nccl_allocates_for_itself_is_no_fault_of_the_program(findings, where, has_nccl, is_found):
    program = Program()
    if has_nccl:
        program.builder.range(0, None, "NCCL", kind=75, domain=3)
        program.builder.range(0, 10, "ncclCommInitRankConfig", domain=3)
    for _ in range(8):
        begin = program.now
        for _ in range(10):
            program.launch(200 * US)
        start = program.now
        if where == "thread":
            # The main thread waits for the other one.
            program.builder.call(start + US, start + 6 * MS, 10_000 + start, "cuMemMap", tid=OTHER_TID)
            program.host(6 * MS + 2 * US)
        else:
            program.call("cudaMalloc_v3020", 6 * MS)
        if where == "range":
            program.builder.range(start - US, program.now + US, "ncclAllReduce", domain=3)
        program.step(begin)
    assert ("alloc-in-loop" in [item.code for item in findings(program.builder).items]) == is_found


def test_many_short_kernels_are_bound_by_their_launches(findings):
    program = Program()
    for _ in range(6):
        begin = program.now
        for _ in range(200):
            program.host(6 * US)
            program.launch(2 * US)
        program.step(begin)
    (item,) = findings(program.builder).items
    assert item.code == "launch-bound"
    # 8 us a kernel by the host, 3 us by the GPU.
    assert item.saving_ns == pytest.approx(200 * 5 * US, rel=0.1)


def test_warm_up_is_left_out(findings):
    program = Program()
    for step in range(8):
        begin = program.now
        if step == 0:
            program.call("cuModuleLoadData", 400 * MS)
            program.call("cudaMalloc_v3020", 30 * MS)
        for _ in range(20):
            program.launch(200 * US)
        program.wait()
        program.step(begin)
    found = findings(program.builder)
    assert found.warmup >= 1
    assert [item.code for item in found.items if item.code in ("module-load", "alloc-in-loop")] == []


def test_modules_that_are_loaded_in_each_step_are_found(findings):
    program = Program()
    for _ in range(8):
        begin = program.now
        program.call("cuModuleLoadData", 10 * MS)
        for _ in range(20):
            program.launch(200 * US)
        program.step(begin)
    (item,) = findings(program.builder).items
    assert item.code == "module-load"
    # Of the 10 ms the GPU works 4 on what had been issued before.
    assert item.saving_ns == pytest.approx(6 * MS, rel=0.1)


def test_attention_in_pieces_is_recognised_by_its_kernels(findings):
    program = Program()
    for _ in range(8):
        begin = program.now
        for _ in range(4):
            program.launch(100 * US, "gemm_qk")
            program.launch(300 * US, "softmax_warp_forward")
            program.launch(100 * US, "gemm_pv")
            program.launch(500 * US, "gemm_mlp")
            program.launch(50 * US, "log_softmax_of_loss")
        program.step(begin)
    (item,) = findings(program.builder).items
    assert item.code == "unfused-attention"
    assert item.count == 4
    # The softmax goes, and of the products the time that a fused kernel does not need.
    assert item.saving_ns == pytest.approx(4 * (302 + (1 - FORWARD.usual) * 200) * US, rel=0.02)


def test_a_kernel_that_is_loaded_in_front_of_attention_is_no_part_of_it(findings):
    program = Program()
    for number in range(8):
        begin = program.now
        program.launch(100 * US, "gemm_qk")
        if number == 4:
            program.host(100 * MS)
        program.launch(300 * US, "softmax_warp_forward")
        program.launch(100 * US, "gemm_pv")
        program.step(begin, f"part_{'abcdefgh'[number]}")
    (item,) = findings(program.builder).items
    assert item.code == "unfused-attention"
    assert item.saving_ns < 8 * 400 * US


def test_what_libraries_annotate_is_no_step(findings):
    program = Program()
    for _ in range(12):
        program.builder.range(program.now, program.now + 5 * MS, "XlaPass:#name=fusion#")
        program.host(5 * MS)
        program.launch(100 * US)
    assert findings(program.builder).per == "trace"


def test_copies_are_counted_in_plain_english(findings):
    texts = [item.text for item in findings(train(faults=("pageable-copy", "sleeping-loader"))[0]).items]
    assert "in 1 copy," in texts[0]
    assert "in 1 stretch " in texts[1]


def test_an_optimizer_in_pieces_is_recognised_by_its_run_of_small_kernels(findings):
    program = Program()
    for _ in range(8):
        begin = program.now
        for _ in range(20):
            program.launch(500 * US)
        for _ in range(50):
            for name in ("lerp_kernel_elementwise", "addcmul_elementwise", "sqrt_elementwise", "addcdiv_elementwise"):
                program.host(8 * US)
                program.launch(3 * US, name)
        program.step(begin)
    found = findings(program.builder)
    assert [item.code for item in found.items][:1] == ["unfused-optimizer"]
    assert found.items[0].count == 200
    # 200 kernels at 10 us become one that takes 0.7 of their time without 1.5 us each.
    assert found.items[0].saving_ns > 140 * 4 * US


def test_a_trace_without_ranges_is_judged_as_a_whole(findings):
    program = Program()
    for _ in range(30):
        program.copy(64 << 20, 10 * MS)
        program.launch(1 * MS)
    (item,) = findings(program.builder).items
    assert (item.code, item.per, item.range) == ("pageable-copy", "trace", "")
    assert item.count == 30


def test_what_happens_once_at_the_beginning_is_in_no_loop(findings):
    program = Program()
    program.launch(10 * US, "init")
    program.call("cudaMalloc_v3020", 50 * MS)
    program.host(100 * MS)
    for _ in range(300):
        program.launch(500 * US)
    program.wait()
    program.call("cudaFree_v3020", 20 * MS)
    assert findings(program.builder).items == ()


def test_a_trace_without_calls_has_no_findings(findings):
    program = Program()
    for _ in range(10):
        program.launch(500 * US)
    del program.builder.tables["CUPTI_ACTIVITY_KIND_RUNTIME"]
    assert findings(program.builder) is None


def test_the_codes_are_those_of_the_documentation():
    from pathlib import Path

    page = (Path(__file__).parents[3] / "docs" / "causes.md").read_text(encoding="utf-8")
    assert [code for code in CODES if f"| `{code}` |" not in page] == []


@pytest.mark.parametrize("name", ["ddp_rank0", "graph_node", "sdpa", "mp", "two_gpus"])
def test_the_replay_of_the_unchanged_trace_takes_the_recorded_time(trace_path, name):
    with open_trace(trace_path(name)) as trace:
        found = summarize(read_tables(trace)).findings
    assert found.replayed_ns == pytest.approx(found.recorded_ns, rel=0.03)
    assert sum(item.saving_ns for item in found.items) <= found.recorded_ns


def test_a_grid_of_cases_is_judged_by_what_its_kernels_are_alone(trace_path):
    with open_trace(trace_path("sdpa")) as trace:
        found = summarize(read_tables(trace)).findings
    assert [item.code for item in found.items] == ["unfused-attention"]


def test_a_trace_without_steps_is_not_told_of_modules_it_loads_once(findings):
    program = Program()
    for number in range(20):
        program.call("cuModuleLoadData", 10 * MS)
        program.launch((1 + number) * US)
    assert "module-load" not in [item.code for item in findings(program.builder).items]


@pytest.mark.parametrize(("gives_back", "says"), [(True, "empty_cache"), (False, "the largest shapes first")])
def test_only_who_gives_memory_back_is_told_not_to(findings, gives_back, says):
    program = Program()
    for _ in range(8):
        begin = program.now
        program.call("cudaMalloc_v3020", 6 * MS)
        program.launch(200 * US, OF_TORCH)
        if gives_back:
            program.call("cudaFree_v3020", 1 * MS)
        program.step(begin)
    (item,) = (each for each in findings(program.builder).items if each.code == "alloc-in-loop")
    assert says in item.next_step
    assert ("empty_cache" in item.next_step) == ("given back" in item.text) == gives_back


@pytest.mark.parametrize(("every", "is_found"), [(50, False), (5, True)])
def test_without_steps_a_few_allocations_are_no_loop(findings, every, is_found):
    program = Program()
    for number in range(100):
        if number % every == every - 1:
            program.call("cudaMalloc_v3020", 20 * MS)
        program.launch((10 + number % 7 * number) * US)
    assert ("alloc-in-loop" in [item.code for item in findings(program.builder).items]) == is_found


def test_next_to_nothing_behind_a_large_fault_is_no_finding(findings):
    """15 us are more than 1 % of what is left without the sleep, and as much as two launches take more or less."""
    program = Program()
    for _ in range(8):
        begin = program.now
        program.host(5 * MS)
        program.call("cudaMalloc_v3020", 15 * US)
        for _ in range(4):
            program.launch(100 * US)
        program.step(begin)
    assert [item.code for item in findings(program.builder).items] == ["host-bound"]


def test_copies_to_the_host_are_told_how_to_be_pinned(findings):
    program = Program()
    for _ in range(8):
        begin = program.now
        program.launch(200 * US, OF_TORCH)
        program.copy(64 << 20, 10 * MS, kind=2)
        program.step(begin)
    (item,) = (each for each in findings(program.builder).items if each.code == "pageable-copy")
    assert "DataLoader" not in item.next_step
    assert "copy_(x, non_blocking=True)" in item.next_step


def test_a_small_fault_behind_a_large_one_is_found(findings):
    program = Program()
    for _ in range(8):
        begin = program.now
        program.host(60 * MS)
        for _ in range(10):
            program.launch(100 * US)
        program.call("cudaMalloc_v3020", 400 * US)
        program.wait()
        program.step(begin)
    found = findings(program.builder)
    # 0.4 ms are less than 1 % of 61 ms, and more than that of the 1 ms that is left without the 60.
    assert found.items[0].code == "host-bound"
    small = {item.code: item.saving_ns for item in found.items[1:]}
    assert set(small) <= {"sync", "alloc-in-loop"}
    assert small
    assert all(0.002 * found.recorded_ns <= saving < 0.01 * found.recorded_ns for saving in small.values())


def test_where_a_trace_lacks_kernels_or_calls_the_report_says_why_there_are_no_findings(tmp_path):
    program = Program()
    for _ in range(60):
        program.host(2 * MS)
        program.launch(100 * US)
    tables = program.builder.tables
    for missing, says in ((7, "launches have no kernel in the trace"), (0, "no CUDA API calls were recorded")):
        if missing:
            columns, rows = tables["CUPTI_ACTIVITY_KIND_KERNEL"]
            tables["CUPTI_ACTIVITY_KIND_KERNEL"] = columns, [*rows[:30], *rows[30 + missing :]]
        else:
            del tables["CUPTI_ACTIVITY_KIND_RUNTIME"]
        path = tmp_path / f"{missing}.sqlite"
        with open_trace(program.builder.write(path)) as trace:
            analysis = summarize(read_tables(trace))
        assert analysis.findings is None
        assert says in analysis.no_findings
        (section,) = findings_sections(analysis)
        assert analysis.no_findings in str(section)
        assert findings_json(analysis)["unknown_because"] == analysis.no_findings
