"""The steps of a loop without an optimizer."""

import pytest

from nsysprof.workload.program_start.watched_program.program_steps import ModuleCalls

torch = pytest.importorskip("torch")


@pytest.fixture
def ended():
    """Return the numbers of the steps that have ended, while calls are counted."""
    steps = []
    calls = ModuleCalls(torch, steps.append)
    calls.begin()
    yield steps
    calls.end()


def test_a_step_is_from_one_call_of_the_outermost_module_to_the_next(ended):
    encoder, model = torch.nn.Linear(4, 4), torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    value = encoder(torch.ones(4))
    for token in range(4):
        assert ended == list(range(1, token))
        value = model(value)
        if token == 2:
            encoder(value)
    assert ended == [1, 2, 3], "neither layers nor the encoder count"


class CallsItself(torch.nn.Module):
    """As vLLM's models: a class with a `__call__` of its own, in which layers are called as usual."""

    def __init__(self):
        super().__init__()
        self.first, self.shared = torch.nn.Linear(4, 4), torch.nn.ReLU()

    def __call__(self, value):
        return self.forward(value)

    def forward(self, value):
        return self.shared(self.first(self.shared(value)))


@pytest.mark.parametrize("how", ["__call__", "forward"])
def test_layers_of_a_module_that_is_called_in_another_way_are_no_steps(how):
    class Model(CallsItself):
        pass

    class Plain(torch.nn.Sequential):
        def forward(self, value):
            return super().forward(value)

    steps, layer = [], torch.nn.ReLU()
    calls = ModuleCalls(torch, steps.append)
    model = Model() if how == "__call__" else Plain(layer, torch.nn.Linear(4, 4), layer)
    before = CallsItself.__call__, CallsItself.forward, Plain.forward
    calls.begin()
    for _ in range(5):
        getattr(model, how)(torch.ones(4))
    calls.end()
    assert steps == [1, 2, 3], "the first call tells which class to watch, the second which module"
    assert before == (CallsItself.__call__, CallsItself.forward, Plain.forward)


def test_a_call_that_fails_ends_too(ended):
    model = torch.nn.Linear(4, 4)
    for size in (5, 5, 4):
        try:
            model(torch.ones(size))
        except RuntimeError:
            assert size == 5
    assert ended == [1, 2]


def test_a_module_that_cannot_be_told_from_others_is_called_all_the_same(ended):
    class Odd(torch.nn.Module):
        __hash__ = None

        def forward(self, value):
            return value + 1

    model = Odd()
    assert [model(each) for each in (1, 2)] == [2, 3]
    assert ended == []


def test_nothing_is_left_at_the_end():
    before = torch.nn.Module.__call__
    calls = ModuleCalls(torch, print)
    calls.begin()
    assert torch.nn.Module.__call__ is not before
    calls.end()
    assert torch.nn.Module.__call__ is before


def test_what_others_put_there_meanwhile_stays_and_what_they_bring_back_does_nothing():
    before, steps = torch.nn.Module.__call__, []
    calls = ModuleCalls(torch, steps.append)
    calls.begin()
    ours = torch.nn.Module.__call__
    try:
        torch.nn.Module.__call__ = theirs = torch.nn.Module.forward
        calls.end()
        assert torch.nn.Module.__call__ is theirs
        torch.nn.Module.__call__ = ours
        model = torch.nn.Linear(2, 2)
        for _ in range(3):
            model(torch.ones(2))
        assert steps == []
    finally:
        torch.nn.Module.__call__ = before


def test_a_compiled_module_is_compiled_as_without_it(ended):
    """Neither a break of the graph nor another compilation when the count ends."""
    graphs = []

    def backend(graph, _inputs):
        graphs.append(len(list(graph.graph.nodes)))
        return graph.forward

    def program(model):
        graphs.clear()
        torch._dynamo.reset()
        compiled = torch.compile(model, backend=backend)
        function = torch.compile(lambda value: model(value) * 2, backend=backend, fullgraph=True)
        for _ in range(3):
            compiled(torch.ones(4))
            function(torch.ones(4))
        return list(graphs)

    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4))
    counted = program(model)
    assert ended == [1, 2], "calls in the compiled function are not seen, those of the compiled module are"
    ours = torch.nn.Module.__call__
    torch.nn.Module.__call__ = torch.nn.Module._wrapped_call_impl  # as it is without
    try:
        assert program(model) == counted
        assert len(counted) == 2
    finally:
        torch.nn.Module.__call__ = ours
