from nsysprof.app.measuring.capture_program import check_grid, check_trace
from nsysprof.results.checks import Lost
from tests.builders.build_trace import TraceBuilder


def test_a_grid_without_any_work_of_the_gpu_lost_it(trace_path, tmp_path):
    assert check_trace(trace_path("sdpa22")).lost == ()
    found = check_grid(trace_path("sdpa22"), cases=12)
    assert found.lost == (Lost.KERNELS,)
    assert "12 measured ranges but not one kernel" in found.remarks.losses[0].note.text
    builder = TraceBuilder()
    builder.launch(100, 1)
    assert check_grid(builder.write(tmp_path / "t.sqlite"), cases=1).lost == ()
