from dataclasses import replace

from nsysprof.app.analyze import analyze_trace
from nsysprof.report.document import Bars, Figure, Lines, Report, Section, Segment, StackedBar
from nsysprof.report.formats.bars import show_segments
from nsysprof.report.formats.html import render_html
from nsysprof.report.pages.analysis import analysis_report, findings_sections, overview_sections, step_sections
from nsysprof.results.analysis import RangeCost
from nsysprof.results.column_registry.analysis_columns import cause_column, work_column
from tests.analysis.programs import MS, US, Program
from tests.builders.build_trace import PID
from tests.builders.training import training
from tests.report import samples


def overview(tmp_path, made):
    (section,) = overview_sections(samples.analysis(tmp_path, made))
    return section


def steps(tmp_path, made):
    (section,) = step_sections(samples.analysis(tmp_path, made))
    return section


def test_it_says_how_busy_the_gpu_is_why_it_is_idle_and_how_long_a_step_takes(tmp_path):
    section = overview(tmp_path, training([5000, *[1000] * 8, 2000, *[1000] * 4]))
    lines = section.parts[0]
    assert isinstance(lines, Lines) and lines.is_verdict
    assert lines.texts[0].startswith("The GPU is busy for 15 % of a step: 150 ns of 1.00 us on average. Idle: ")
    assert "(host-outside-cuda)" in lines.texts[0]
    assert lines.texts[1] == "What it does: 100 ns gemm without tensor cores, 50 ns communication."
    assert lines.texts[2] == (
        "A step takes 1.00 us: the mean of 12 steady steps (median 1.00 us, half of them 1.00 us to 1.00 us, all "
        "1.00 us to 2.00 us). 1 step before them was warm-up. 1 was unusually slow and does not count in the mean: "
        "with it, it is 1.08 us."
    )
    assert lines.texts[3].startswith("Slow steps: 9 (2.00 us, 1.06 us more idle while the host is busy outside CUDA).")


def test_a_gpu_that_only_waits_for_other_ranks_is_not_just_called_busy(tmp_path):
    analysis = samples.analysis(tmp_path, training())
    waits = {work_column("communication"): 600, work_column("gemm"): 300}
    table = analysis.step_times.table.assign(**waits)
    (section,) = overview_sections(replace(analysis, step_times=replace(analysis.step_times, table=table)))
    assert (
        ", 600 ns of it with nothing but collectives, which may wait for other ranks. Idle" in section.parts[0].texts[0]
    )


def test_a_bar_has_all_of_a_step_work_first(tmp_path):
    report = analysis_report(samples.analysis(tmp_path, training()), None, figures=[Figure("step.png", "the step")])
    figure, bar = report.sections[0].parts
    assert isinstance(figure, Figure) and not figure.in_page, "the page has the bar itself"
    assert isinstance(bar, StackedBar)
    assert bar.total == 1000
    assert [segment.color for segment in bar.segments[:2]] == ["gemm", "communication"]


def test_a_part_of_a_bar_has_its_floor_in_full_colour():
    bar = StackedBar("a step", (Segment("gemm", 80, "gemm", 20), Segment("idle", 20, "unknown")))
    gemm, idle = show_segments(bar)
    assert (gemm.width, gemm.floor_width, gemm.text) == (80.0, 20.0, "80 ns (80.0 %), least 20 ns")
    assert idle.floor_width is None and idle.text == "20 ns (20.0 %)"
    page = render_html(Report("a", (Section("", (bar,)),)))
    assert 'class="pale"' in page and "Full colour: the least time" in page


def test_each_step_is_drawn_after_the_findings(tmp_path):
    (bars,) = steps(tmp_path, training()).parts
    assert isinstance(bars, Bars)
    assert len(bars.values) == 10
    assert bars.spans[3] == (13_000, 14_000)


def test_very_many_steps_are_put_together_and_keep_their_slowest(tmp_path):
    walls = [300] * 1000
    walls[777] = 900
    (bars,) = steps(tmp_path, training(walls)).parts
    assert isinstance(bars, Bars)
    assert len(bars.values) <= 400
    assert max(bars.values) == 900
    assert list(bars.marks.values()) == ["slow"]


def test_what_is_too_small_to_be_seen_is_one_part(tmp_path):
    analysis = samples.analysis(tmp_path, training())
    small = {work_column("copy"): 5, work_column("fill"): 4, cause_column("profiler"): 3}
    table = analysis.step_times.table.assign(**small)
    report = analysis_report(replace(analysis, step_times=replace(analysis.step_times, table=table)), None)
    (bar,) = [part for part in report.sections[0].parts if isinstance(part, StackedBar)]
    shown = {each.label: each.value for each in bar.segments}
    assert shown["other kinds of work (2)"] == 9
    # One small part alone keeps its name.
    assert shown["idle: for the profiler"] == 3
    assert bar.total == 1012


def test_operators_of_a_cpu_are_no_gpu(tmp_path):
    assert overview_sections(samples.analysis(tmp_path, samples.builder(operators=True))) == []


def texts_of(sections):
    return "\n".join(text for section in sections for part in section.parts for text in getattr(part, "texts", ()))


def test_idle_time_outside_of_a_gpus_work_is_no_share_of_it(tmp_path):
    """As in 18 traces of unified memory, whose pages migrate back after the last kernel."""
    program = Program()
    for ns in (40 * MS, 20 * MS, 30 * MS):
        program.launch(ns)
    end = max(program.free.values())
    program.builder.put(
        "CUPTI_ACTIVITY_KIND_MEMCPY", start=end + 9 * MS, end=end + 210 * MS, deviceId=0, contextId=1, streamId=7,
        correlationId=0, globalPid=PID, bytes=1 << 20, copyKind=12, srcKind=3, dstKind=3,
    )  # fmt: skip
    analysis = analyze_trace(program.builder.write(tmp_path / "t.sqlite"))
    line = texts_of(overview_sections(analysis)).splitlines()[0]
    assert line.startswith("The GPU is busy for 100 % of the time from its first to its last work: 90.0 ms of 90.0 ms.")
    assert "Idle:" not in line
    assert "Another 210 ms of the trace lie before this or after it." in line


def test_savings_are_not_computed_on_more_than_all(tmp_path):
    program = Program()
    program.launch(1 * US)
    program.host(5 * MS)
    program.wait()
    analysis = analyze_trace(program.builder.write(tmp_path / "t.sqlite"))
    assert analysis.findings.recorded_ns > analysis.findings.step_ns
    text = texts_of(findings_sections(analysis))
    assert "The savings are computed on" in text
    assert " of it: the process" not in text


def test_a_trace_of_set_up_says_so(tmp_path):
    """As where 87 % of the time is a compiler's, and the GPU has 0.1 %."""
    program = Program()
    for _ in range(3):
        program.launch(100 * US)
        program.wait()
        program.host(400 * MS)
    program.launch(10 * US, "last")
    text = texts_of(findings_sections(analyze_trace(program.builder.write(tmp_path / "t.sqlite"))))
    assert "nearly all of it passes outside the GPU, as while a program loads or compiles" in text


def test_a_step_without_the_profiler_is_said_as_measured_else_as_replayed(tmp_path):
    analysis = samples.analysis(tmp_path, training())
    findings = replace(analysis.findings, unrecorded_low_ns=600)
    (replayed,) = overview_sections(replace(analysis, findings=findings))
    said = "Recording slows the host: without it, a step takes between 600 ns and 1.00 us, by a replay."
    assert any(text.startswith(said) for text in replayed.parts[0].texts)
    cost = RangeCost(findings.per, 20, 20, 1000, 700, 1.4, 1.3, 1.5, is_distorted=True)
    (measured,) = overview_sections(replace(analysis, findings=findings, recording_cost=(cost,)))
    assert "a step takes 1.00 us instead of 700 ns (medians, measured)" in " ".join(measured.parts[0].texts)
    assert "by a replay" not in " ".join(measured.parts[0].texts)
    (first, *_), (near, *_), (longer, *_), (*_, last) = (
        overview_sections(
            replace(
                analysis, findings=replace(findings, unrecorded_ns=ns, unrecorded_low_ns=600, unrecorded_high_ns=1400)
            )
        )[0]
        .parts[0]
        .texts
        for ns in (800, 880, 1280, 950)
    )
    run = "(median and 95 % of one run; where the host sets the pace, another run may take twice as long, or half)"
    assert first.startswith(f"Without the profiler, a step takes 0.800 [0.600, 1.40] us {run}.")
    assert "Recording slows the host, which makes it 1.00 us, 25.0 % more" in first
    assert "Recording, or another run, makes it 1.00 us, 13.6 % more" in near
    assert "Under the profiler it took 1.00 us, which is less" in longer
    assert last.endswith(f"takes 0.950 [0.600, 1.40] us {run}; savings are of this time.")


def test_changes_that_save_more_together_than_alone_are_said_to_do_so(trace_path):
    analysis = analyze_trace(trace_path("h200-faults/sync"))
    findings = analysis.findings
    alone = sum(item.saving_ns for item in findings.items)
    said = "That is more than each saves by itself"
    more, not_more = (
        texts_of(findings_sections(replace(analysis, findings=replace(findings, together_ns=int(times * alone)))))
        for times in (1.4, 1.0)
    )
    assert said in more
    assert said not in not_more
