from nsysprof.analysis.overview.summarize import summarize
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.builders.build_trace import TraceBuilder


def trace(slow_at, extra):
    """20 steps of 10 us with a kernel each; the slow ones take 10 us more, `extra` of which is one cudaMalloc."""
    builder, at = TraceBuilder(), 0
    for step in range(20):
        longer = 10_000 if step in slow_at else 0
        builder.range(at, at + 10_000 + longer, f"step{step}")
        builder.range(at + 100, at + 5_000 + longer, "forward")
        builder.launch(at + 200, 10 * step + 1)
        if longer and extra:
            builder.call(at + 1_000, at + 1_000 + extra, 10 * step + 2, "cudaMalloc_v3020")
        at += 25_000
    return builder


def analyze(builder, path):
    with open_trace(builder.write(path / "t.sqlite")) as opened:
        return summarize(read_tables(opened))


def test_a_slow_step_is_named_with_what_was_different(tmp_path):
    analysis = analyze(trace({13}, 9_000), tmp_path)
    (note,) = [note for note in analysis.notes if note.code == "slow-instances"]
    assert "step13 took 20.0 us instead of 10.0 us: forward inside it took 10.0 us longer" in note.text
    assert "cudaMalloc took 9.00 us longer (1 call instead of 0)" in note.text
    assert "forward (instance" not in note.text, "it is inside the slow step"
    rows = analysis.range_instances
    assert rows.loc[rows["slow_because"].notna(), "range"].tolist() == ["step13"]


def test_time_outside_calls_is_said_and_warm_up_is_not_slow(tmp_path):
    analysis = analyze(trace({0, 1, 9}, 0), tmp_path)
    (note,) = [note for note in analysis.notes if note.code == "slow-instances"]
    assert "step9" in note.text and "its thread was outside CUDA calls for 10.0 us longer" in note.text
    assert "step0" not in note.text and "step1 " not in note.text


def test_equal_steps_have_none(tmp_path):
    analysis = analyze(trace(set(), 0), tmp_path)
    assert not [note for note in analysis.notes if note.code == "slow-instances"]


def test_a_numbered_range_that_occurs_again_has_the_number_of_its_instance(tmp_path):
    builder, at = TraceBuilder(), 0
    for step in range(10):
        for layer in range(2):
            longer = 20_000 if (step, layer) == (7, 1) else 0
            builder.range(at, at + 10_000 + longer, f"layer{layer}")
            builder.launch(at + 200, 10 * step + layer + 1)
            at += 10_100 + longer
    (note,) = [note for note in analyze(builder, tmp_path).notes if note.code == "slow-instances"]
    assert "layer1 (instance 7) took 30.0 us instead of 10.0 us" in note.text
