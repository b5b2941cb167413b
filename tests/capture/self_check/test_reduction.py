from nsysprof.capture.self_check.reduction import reductions
from nsysprof.nsight.nsys import merge_options
from nsysprof.results.checks import Lost


def options(lost, *more, **versions):
    return [each.options for each in reductions(merge_options(more), lost, **versions)]


def test_the_most_suspected_option_is_left_out_first():
    first, second = options((Lost.KERNELS,))
    assert first == ("--cuda-memory-usage=false",)
    assert second == ("--cuda-memory-usage=false", "--cuda-flush-interval=0")


def test_a_known_loss_is_said_to_be_known():
    used = merge_options(())
    for version, is_known in (("2025.3.1.90-1", True), ("2026.1", False), (None, False)):
        found = reductions(used, (Lost.EVENTS,), nsys=version, driver="580.95")
        assert found[0].options == ("--trace=cuda",)
        assert found[0].is_known is is_known


def test_the_ranges_of_xla_alone_are_given_up_first():
    first, second, *_ = options((Lost.EVENTS,), domains={"TSL", "NCCL"})
    assert (first, second) == (("--nvtx-domain-exclude=TSL",), ("--trace=cuda",))
    assert options((Lost.EVENTS,), domains={"NCCL"})[0] == ("--trace=cuda",)
    assert options((Lost.KERNELS,), domains={"TSL"})[0] == ("--cuda-memory-usage=false",)
    chosen = options((Lost.EVENTS,), "--nvtx-domain-include=default", domains={"TSL"})
    assert chosen[0] == ("--trace=cuda",), "nsys refuses both options"


def test_graph_nodes_are_given_up_only_for_graph_nodes():
    assert not any("--cuda-graph-trace=graph" in each for each in options((Lost.KERNELS,)))
    assert "--cuda-graph-trace=graph" in options((Lost.GRAPH_NODES,))[1]


def test_counters_are_given_up():
    used = merge_options(("--gpu-metrics-devices=0", "--gpu-metrics-frequency=10000"))
    found = reductions(used, (Lost.EVENTS,))
    assert [each.drops_metrics for each in found] == [False, False, True]
    assert "counters" in found[2].without


def test_forked_processes_are_followed_and_nothing_else_changes():
    assert options((Lost.PROCESS,)) == [("--trace-fork-before-exec=true",)]
    assert options((Lost.PROCESS,), "--trace-fork-before-exec=true") == []
    assert not reductions(merge_options(()), (Lost.PROCESS,), nsys="2025.3.1", driver="580")[0].is_known


def test_nothing_is_left_to_leave_out():
    assert options((Lost.KERNELS,), "--cuda-memory-usage=false", "--cuda-flush-interval=0") == []
    (software,) = options(
        (Lost.KERNELS,), "--cuda-memory-usage=false", "--cuda-flush-interval=0", knows_software_trace=True
    )
    assert software[-1] == "--trace=cuda-sw,nvtx"
