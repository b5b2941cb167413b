"""Time in which a compiler runs is a cause of idle time, and among steady steps a finding that says what and why."""

import pytest

from nsysprof.app.analyze import analyze_trace
from nsysprof.report.pages.analysis import findings_sections, overview_sections
from tests.builders.build_trace import OTHER_TID, TraceBuilder

STEP_NS, STEPS, COMPILE_NS = 10_000_000, 40, 4_000_000
NAME = "nsysprof compile dynamo block (train.py:12): tensor 'x' size mismatch at index 0. expected 8, actual 9"


def build(
    tmp_path, *, names=(NAME,), tid=None, steps=range(STEPS), called="cudaLaunchKernel_v7000", count=STEPS,
    pause=COMPILE_NS,
):  # fmt: skip
    """Write a trace of steps: a kernel of 3 ms, then nothing for 4 ms, in which a compiler runs, then one of 3 ms."""
    trace = TraceBuilder()
    trace.gpu()
    at, compile_ns = 0, pause
    for step in range(count):
        number, pause = 2 * step + 1, compile_ns if step in steps else 4000
        trace.range(at, at + 6_000_000 + pause, "step")
        trace.call(at + 1000, at + 6000, number)
        trace.kernel(at + 7000, at + 3_000_000, number, "first")
        for name in names if step in steps else ():
            trace.range(at + 3_000_000, at + 3_000_000 + pause, name, **({} if tid is None else {"tid": tid}))
        if called != "cudaLaunchKernel_v7000":
            trace.call(at + 3_000_500 + pause, at + 3_000_900 + pause, 10_000 + number, called)
        trace.call(at + 3_001_000 + pause, at + 3_006_000 + pause, number + 1)
        trace.kernel(at + 3_007_000 + pause, at + 5_998_000 + pause, number + 1, "second")
        at += 6_001_000 + pause
    return analyze_trace(trace.write(tmp_path / "t.sqlite"))


def causes(analysis):
    table = analysis.idle.table
    return table[table["range"] == ""].set_index("cause")["idle_ns"].to_dict()


def findings(analysis):
    return {item.code: item for item in analysis.findings.items}


def test_compiling_in_each_step_is_a_finding_that_says_what_and_why(tmp_path):
    analysis = build(tmp_path)
    assert causes(analysis)["jit-compile"] == STEPS * COMPILE_NS
    assert sum(causes(analysis).values()) == sum(device.idle_ns for device in analysis.idle.devices)
    finding = findings(analysis)["jit-in-loop"]
    assert finding.saving_ns == pytest.approx(COMPILE_NS, rel=0.02)
    assert finding.location == "train.py:12"
    assert finding.location_share_pct is None
    assert "torch.compile compiles block (train.py:12) once a step, for 4.00 ms each" in finding.text
    assert "because tensor 'x' size mismatch at index 0. expected 8, actual 9." in finding.text
    assert "mark_dynamic" in finding.next_step
    assert "host-bound" not in findings(analysis)
    assert list(analysis.ranges["range"]) == ["step"]


def test_what_was_compiled_before_a_module_is_loaded_is_no_second_finding(tmp_path):
    found = findings(build(tmp_path, called="cuModuleLoadData"))
    assert "jit-in-loop" in found
    assert "module-load" not in found


@pytest.mark.parametrize(("name", "said", "advice"), [
    ("dynamo block (train.py:12): L['scale'] == 3", "because L['scale'] == 3.", "guard"),
    ("triton add_kernel (kernels.py:4): BLOCK=128", "Triton compiles add_kernel (kernels.py:4)", "tl.constexpr"),
    ("backward block (train.py:12)", "the backward pass of block", "mark_dynamic"),
    ("cute gemm (:0)", "CuTe DSL compiles gemm once", "tl.constexpr"),
])  # fmt: skip
def test_the_advice_depends_on_what_asked_for_it(tmp_path, name, said, advice):
    finding = findings(build(tmp_path, names=(f"nsysprof compile {name}",)))["jit-in-loop"]
    assert said in finding.text
    assert advice in finding.next_step


def test_compilations_within_another_count_once(tmp_path):
    analysis = build(tmp_path, names=(NAME, "nsysprof compile triton add (a.py:1)", "nsysprof gc 2"))
    assert causes(analysis)["jit-compile"] == STEPS * COMPILE_NS
    assert "python-gc" not in causes(analysis)
    assert "Triton" not in findings(analysis)["jit-in-loop"].text


@pytest.mark.parametrize("steps", [range(1), range(3)])
def test_compiling_in_the_first_steps_is_no_fault_of_the_loop(tmp_path, steps):
    analysis = build(tmp_path, steps=steps)
    assert causes(analysis)["jit-compile"] == len(steps) * COMPILE_NS
    assert "jit-in-loop" not in findings(analysis)


@pytest.mark.parametrize("given", [{"names": ()}, {"tid": OTHER_TID}, {"names": ("my nsysprof compile x",)}])
def test_other_time_of_the_host_is_no_compilation(tmp_path, given):
    analysis = build(tmp_path, **given)
    assert "jit-compile" not in causes(analysis)
    assert set(findings(analysis)) == {"host-bound"}


def test_a_short_run_that_compiles_most_of_the_time_says_so_in_its_first_line(tmp_path):
    trace = TraceBuilder()
    trace.gpu()
    for number, start in enumerate((0, 9_900_000_000, 10_400_000_000), start=1):
        trace.launch(start, number)
    trace.range(1000, 9_899_000_000, NAME)
    (section,) = overview_sections(analyze_trace(trace.write(tmp_path / "t.sqlite")))
    first = section.parts[0].texts[0]
    assert "95 % while torch, Triton or CuTe DSL compile (jit-compile)" in first


@pytest.mark.parametrize(("steps", "times", "has_lower_bound"), [({57}, "once", False), ({57, 80}, "2 times", True)])
def test_a_rare_compilation_that_makes_a_step_slow_is_a_finding_of_the_mean_of_all_steps(
    tmp_path, steps, times, has_lower_bound
):
    pause = 2_000_000_000
    analysis = build(tmp_path, steps=steps, count=100, pause=pause)
    finding = findings(analysis)["jit-in-loop"]
    steady = len(steps) + analysis.findings.usual_steps
    assert finding.saving_ns == finding.saving_high_ns == pytest.approx(len(steps) * pause / steady, rel=0.01)
    assert (finding.saving_low_ns > 0) == has_lower_bound
    assert finding.idle_ns == pytest.approx(finding.saving_ns, rel=0.01)
    assert finding.per == "mean step"
    assert finding.location == "train.py:12"
    assert f"The host compiles in {len(steps)} of {steady} steps" in finding.text
    assert f"torch.compile compiles block (train.py:12) {times}, for 2.00 s each" in finding.text
    assert "because tensor 'x' size mismatch at index 0" in finding.text and "mark_dynamic" in finding.next_step
    (section, *_) = findings_sections(analysis)
    (first,) = section.parts[0].texts
    assert first.startswith("Nothing was found above 1 % of the 6."), "a usual step is as it was"
    assert "Slow steps, which are not in that time, lose" in first
    assert analysis.findings.together_ns == 0


def test_a_step_that_is_slow_for_another_reason_has_no_finding_of_compilers(tmp_path):
    """A thread that launches nothing compiled meanwhile."""
    analysis = build(tmp_path, steps={57}, count=100, pause=2_000_000_000, tid=OTHER_TID)
    assert "jit-in-loop" not in findings(analysis)
