"""Modules open ranges forward and backward, ranges always close, and the program computes what it computes without."""

import contextlib
import json
import pickle
import sys
import threading
import time
import tracemalloc
import warnings
from types import SimpleNamespace

import pytest

from nsysprof.trace.table_readers.layer_ranges import read_layer_range
from nsysprof.workload.program_start import layer_recorder
from nsysprof.workload.program_start.attention_calls import fast_path
from nsysprof.workload.program_start.layer_recorder import Backward, LayerRecorder, Layers
from nsysprof.workload.program_start.watched_program.program_steps import ModuleCalls

torch = pytest.importorskip("torch")
nn = torch.nn


class Ranges:
    """Keeps what is opened and closed, in order. Push/pop ranges must nest."""

    def __init__(self):
        self.events, self.stack, self.running = [], [], {}

    def push(self, text):
        self.stack.append(text)
        self.events.append(("push", read_layer_range(text)))

    def pop(self):
        self.events.append(("pop", read_layer_range(self.stack.pop())))

    def start(self, text):
        number = len(self.events)
        self.running[number] = read_layer_range(text)
        self.events.append(("start", self.running[number]))
        return number

    def end(self, number):
        self.events.append(("end", self.running.pop(number)))

    def names(self, *kinds):
        return [(layer.way, layer.layer, layer.is_call) for kind, layer in self.events if kind in kinds]


@pytest.fixture(params=["compiled", "python"])
def record(request, monkeypatch):
    """Return a function that records from then on, and returns the ranges."""
    if request.param == "python":
        monkeypatch.setattr(layer_recorder, "watch_modules", lambda *_: None)
    elif fast_path.compiled is None:
        pytest.skip("the compiled part is not there")
    original = nn.Module.__dict__["__call__"]

    def begin(depth=None, pattern="", *, backward=True):
        ranges, layers = Ranges(), Layers(depth, pattern)
        recorder = LayerRecorder(
            torch, layers, ranges.push, ranges.pop,
            Backward(torch, ranges.start, ranges.end) if backward else None,
        )  # fmt: skip
        recorder.start()
        ranges.recorder, ranges.layers = recorder, layers
        return ranges

    yield begin
    nn.Module.__call__ = original
    from torch.optim import optimizer

    for registered in (optimizer._global_optimizer_pre_hooks, optimizer._global_optimizer_post_hooks):
        registered.clear()


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers, self.head = nn.ModuleList([Block(), Block()]), nn.Linear(8, 2)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        if x.shape[0] == 3:
            raise ValueError("three rows")
        return {"logits": (self.head(x),)}


def step(model, rows=4):
    loss = model(torch.ones(rows, 8))["logits"][0].square().sum()
    loss.backward()
    return loss.item(), [parameter.grad.clone() for parameter in model.parameters()]


def test_what_counts_calls_of_the_outermost_module_still_sees_them(record):
    """As the recorder of operators does, which begins before."""
    steps = []
    calls = ModuleCalls(torch, steps.append)
    calls.begin()
    ranges, model = record(), Model()
    for _ in range(4):
        model(torch.ones(4, 8))
    calls.end()
    assert steps == [1, 2, 3]
    assert len(ranges.names("push")) == 4 * 10


def test_forward_ranges_nest_and_the_backward_pass_goes_through_the_layers_in_reverse(record):
    plain = step(Model())
    ranges = record()
    recorded = step(Model())
    assert recorded[0] == plain[0]
    assert all(map(torch.equal, recorded[1], plain[1])), "gradients are the same"
    assert not ranges.stack and not ranges.running
    assert ranges.names("push") == [("forward", name, True) for name in (
        "Model", "layers.0", "layers.0.norm", "layers.0.up", "layers.0.down", "layers.1", "layers.1.norm",
        "layers.1.up", "layers.1.down", "head",
    )]  # fmt: skip
    # The head's output is the model's as well. A block adds to its input after `down`; GELU is its own, between two.
    assert ranges.names("start") == [("backward", *name) for name in (
        ("Model", True), ("head", True),
        ("layers.1", True), ("layers.1.down", True), ("layers.1", False), ("layers.1.up", True),
        ("layers.1.norm", True), ("layers.0", True), ("layers.0.down", True), ("layers.0", False),
        ("layers.0.up", True), ("layers.0.norm", True),
    )]  # fmt: skip


def test_an_exception_closes_all_ranges_and_is_the_programs_own(record):
    ranges = record()
    with pytest.raises(ValueError, match="three rows"):
        step(Model(), rows=3)
    assert not ranges.stack and not ranges.running
    assert ranges.names("push") == ranges.names("pop")[-1:] + ranges.names("push")[1:]


class Failing(torch.autograd.Function):
    @staticmethod
    def forward(_context, x):
        return x * 1

    @staticmethod
    def backward(_context, _gradient):
        raise ArithmeticError("in the backward pass")


def test_a_backward_pass_that_fails_ends_with_the_next_call(record):
    class Fails(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(8, 8)

        def forward(self, x):
            return self.inner(Failing.apply(self.inner(x)))

    ranges, model = record(), Fails()
    with pytest.raises(ArithmeticError, match="in the backward pass"):
        model(torch.ones(2, 8)).sum().backward()
    with torch.no_grad():
        model.inner(torch.ones(2, 8))
    assert not ranges.running and not ranges.stack


def test_a_checkpoint_computes_its_layers_again_inside_the_backward_pass(record):
    from torch.utils.checkpoint import checkpoint

    ranges, model = record(), Block()
    x = torch.ones(2, 8, requires_grad=True)
    checkpoint(model, x, use_reentrant=False).sum().backward()
    assert not ranges.stack and not ranges.running
    assert ranges.names("push").count(("forward", "up", True)) == 2
    assert ("backward", "up", True) in ranges.names("start")


def test_a_step_of_the_optimizer_has_a_range(record):
    ranges, model = record(), Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step(model)
    optimizer.step()
    assert ranges.events[-2:] == [(kind, read_layer_range("nsysprof optimizer SGD (SGD)")) for kind in ("start", "end")]


@pytest.mark.parametrize(("depth", "pattern", "names"), [
    (1, "", {"Model", "head"}),
    (2, "", {"Model", "head", "layers.0", "layers.1"}),
    (0, r"layers\.1\.(up|down)$", {"layers.1.up", "layers.1.down"}),
])  # fmt: skip
def test_depth_and_pattern_choose_modules(record, depth, pattern, names):
    ranges = record(depth, pattern)
    step(Model())
    assert {layer for _, layer, _ in ranges.names("push")} == names


def test_a_large_model_has_ranges_of_at_most_half_of_its_modules(record):
    ranges = record()
    with torch.no_grad():
        nn.Sequential(*(Block() for _ in range(30)))(torch.ones(2, 8))
    assert {layer for _, layer, _ in ranges.names("push")} == {"Sequential", *map(str, range(30))}


def test_wrappers_are_seen_through_and_shared_modules_have_one_name(record):
    class Wrapper(nn.Module):
        def __init__(self, module):
            super().__init__()
            self.module = module

        def forward(self, x):
            return self.module(x)

    ranges, model = record(), Model()
    model.layers[1] = model.layers[0]
    with torch.no_grad():
        Wrapper(model)(torch.ones(2, 8))
    names = [layer for _, layer, _ in ranges.names("push")]
    assert names[0] == "Model" and names.count("Model") == 1
    assert names.count("layers.0") == 2 and "layers.1" not in names


def test_a_module_in_a_plain_list_is_named_after_the_one_that_calls_it(record):
    class Hidden(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = [[nn.Linear(8, 8)]]

        def forward(self, x):
            return self.parts[0][0](x)

    ranges = record()
    with torch.no_grad():
        Hidden()(torch.ones(2, 8))
    assert [layer for _, layer, _ in ranges.names("push")] == ["Hidden", "Hidden.Linear"]


def test_a_second_model_has_its_class_before_its_layers(record):
    ranges = record()
    with torch.no_grad():
        Model()(torch.ones(2, 8))
        Block()(torch.ones(2, 8))
    assert [layer for _, layer, _ in ranges.names("push")][-4:] == ["Block", "Block.norm", "Block.up", "Block.down"]


def test_names_are_forgotten_with_their_modules_and_models_can_still_be_pickled(record):
    ranges, model = record(), Model()
    with torch.no_grad():
        model(torch.ones(2, 8))
        assert torch.equal(pickle.loads(pickle.dumps(model)).head.weight, model.head.weight)
        del model
    assert not ranges.layers.by_module


def test_a_compiled_model_is_one_layer(record):
    ranges, model = record(), Block()
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    x = torch.ones(2, 8)
    with torch.no_grad():
        assert torch.equal(compiled(x), model.forward(x))
    assert next(layer for _, layer, _ in ranges.names("push")) == "Block"


@pytest.mark.parametrize("is_root", [True, False])
def test_modules_inside_a_compiled_region_compile_as_without(record, is_root):
    """Their calls are one graph without a break, which is compiled once."""
    model, x, graphs = Model(), torch.ones(2, 8), []

    def backend(graph, _inputs):
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    expected = model(x)["logits"][0]
    ranges = record()
    region = model if is_root else lambda given: model(given) | {"more": model.layers[0](given)}
    compiled = torch.compile(region, backend=backend, fullgraph=True)
    for _ in range(3):
        assert torch.equal(compiled(x)["logits"][0], expected)
    assert len(graphs) == 1
    assert {layer for _, layer, _ in ranges.names("push")} <= {"Model", "OptimizedModule"}
    assert not ranges.stack


def test_a_module_that_was_compiled_in_place_is_one_layer(record):
    model, x = Model(), torch.ones(2, 8)
    expected = model(x)["logits"][0]
    model.compile(backend="eager")
    ranges = record(backward=False)
    assert torch.equal(model(x)["logits"][0], expected)
    assert ranges.names("push")[0] == ("forward", "Model", True) and not ranges.stack


def test_torch_fx_sees_each_module(record):
    ranges = record(pattern=r"layers\.")
    with torch.no_grad():
        Model()(torch.ones(2, 8))
    block, x = Block(), torch.ones(2, 8)
    graph = torch.fx.symbolic_trace(block)
    assert [node.target for node in graph.graph.nodes if node.op == "call_module"] == ["norm", "up", "down"]
    assert torch.equal(graph(x), block(x))
    ranges.events.clear()
    with torch.no_grad():
        Model()(x)
    assert len(ranges.names("push")) == 8, "what fx put back is the recorder's own"


def test_calls_of_known_modules_run_no_python_of_the_recorder(record, request):
    entered = []
    ranges, model = record(1, backward=False), Model()
    model(torch.ones(2, 8))
    sys.setprofile(lambda frame, event, _: entered.append(frame.f_code.co_filename) if event == "call" else None)
    try:
        model(torch.ones(2, 8))
    finally:
        sys.setprofile(None)
    assert len(ranges.names("push")) == 4 and not ranges.layers.timed
    assert (layer_recorder.__file__ in entered) == ("[python]" in request.node.name)


def test_threads_have_ranges_of_their_own(record):
    ranges, model = record(backward=False), Model()
    with torch.no_grad():
        thread = threading.Thread(target=lambda: model(torch.ones(2, 8)))
        thread.start()
        thread.join()
    assert ranges.names("push")[0] == ("forward", "Model", True)


def test_the_cost_is_written(record, tmp_path):
    ranges = record(backward=False)
    with torch.no_grad():
        nn.Sequential(*(nn.Linear(8, 8) for _ in range(20)))(torch.ones(2, 8))
    ranges.recorder.write(str(tmp_path / "1.json"))
    data = SimpleNamespace(**json.loads((tmp_path / "1.json").read_text()))
    assert (data.layers, data.timed_layers, data.timed_calls, data.backward) == (21, 1, 1, False)
    assert 0 < data.own_ns < data.wall_ns


def test_a_module_that_cannot_be_named_is_asked_once_and_runs(record):
    asked = []

    class Odd(nn.Linear):
        def named_modules(self, *_arguments, **_named):
            asked.append(1)
            raise RuntimeError("no names")

    ranges, odd = record(), Odd(2, 2)
    for _ in range(3):
        assert odd(torch.ones(1, 2)).shape == (1, 2)
    assert asked == [1]
    assert not ranges.names("push")


def test_hooks_of_the_program_run_as_without_and_may_change_and_fail(record):
    """Hooks run inside the range of their module, and a hook that raises closes it."""

    def run(is_recorded):
        model, seen = Model(), []
        ranges = record() if is_recorded else None
        model.head.register_forward_pre_hook(lambda _module, given: (given[0] * 2,))
        model.head.register_forward_hook(lambda _module, _given, result: result + 1)
        model.layers[0].up.register_full_backward_hook(lambda _module, given, _: seen.append(given[0].shape))
        nn.modules.module.register_module_forward_hook(lambda module, *_: seen.append(type(module).__name__))
        try:
            values = step(model)
            model.layers[1].register_forward_hook(lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                model(torch.ones(4, 8))
        finally:
            nn.modules.module._global_forward_hooks.clear()
        return values, seen, ranges

    (plain, plain_seen, _), (recorded, seen, ranges) = run(is_recorded=False), run(is_recorded=True)
    assert plain[0] == recorded[0] and all(map(torch.equal, plain[1], recorded[1]))
    assert seen == plain_seen and len(seen) > 10
    assert not ranges.stack and not ranges.running
    assert ("forward", "layers.1", True) in ranges.names("pop")


def test_a_module_that_is_called_twice_has_two_calls_forward_and_backward(record):
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(8, 8)

        def forward(self, x):
            return self.inner(torch.relu(self.inner(x)))

    ranges = record()
    Twice()(torch.ones(2, 8)).sum().backward()
    assert ranges.names("push") == [("forward", "Twice", True), *[("forward", "inner", True)] * 2]
    # The second call ends with the model's own output. Before the first one, relu is the model's own.
    assert [name for name in ranges.names("start") if name[1] == "inner"] == [("backward", "inner", True)] * 2
    assert not ranges.stack and not ranges.running


@pytest.mark.parametrize("compile_module", ["script", "trace"])
def test_modules_of_torch_jit_are_one_layer_and_compute_the_same(record, compile_module):
    class Around(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return self.inner(x) * 2

    x = torch.ones(2, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        block = Block()
        inner = torch.jit.script(block) if compile_module == "script" else torch.jit.trace(block, x)
    model = Around(inner)
    expected = model(x)
    ranges = record()
    result = model(x)
    result.sum().backward()
    assert torch.equal(result, expected)
    assert [name[1] for name in ranges.names("push")] == ["Around", "inner"], "what C++ calls is in it"
    assert not ranges.stack and not ranges.running


@pytest.mark.parametrize("compile_module", ["script", "trace"])
def test_a_model_that_is_compiled_with_torch_jit_while_it_is_recorded_is_the_same(record, compile_module):
    model, x = Block(), torch.ones(2, 8)
    expected = model(x)
    ranges = record()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = torch.jit.script(model) if compile_module == "script" else torch.jit.trace(model, x)
    assert torch.equal(compiled(x), expected)
    assert not ranges.stack and not ranges.running


def test_thousands_of_layers_are_named_in_time_and_closed(record):
    ranges, model = record(depth=0), nn.Sequential(*(nn.Identity() for _ in range(5000)))
    began = time.perf_counter()
    for _ in range(2):
        model(torch.ones(1))
    assert time.perf_counter() - began < 20, "naming a module does not look at all others"
    assert len(ranges.names("push")) == 2 * 5001 and len(ranges.layers.by_module) == 5001
    assert not ranges.stack


@pytest.mark.parametrize("name", [
    " ", "a b", "x (y)", "\n", "nsysprof forward a (B)", "é中", "%s", "\x00", "::", "9" * 300, "a/../b", "\ud800",
])  # fmt: skip
def test_any_name_of_a_module_and_of_its_class_is_one_range_that_is_read_again(record, name):
    kind = type(name.replace("\x00", "").replace("\ud800", "") or "K", (nn.Identity,), {})

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self._modules[name] = kind()  # add_module refuses some of these names

        def forward(self, x):
            return next(iter(self._modules.values()))(x)

    ranges = record()
    assert Model()(torch.ones(1)) == 1
    assert len(ranges.names("push")) == len(ranges.names("pop")) == 2, "each text is read as a range of a layer"
    (_, path, _) = ranges.names("push")[1]
    assert path and len(path) <= 200 and path.isprintable() and not set(path) & set(" ()")


def test_classes_that_tell_nothing_of_themselves_or_take_nothing_run_as_before(record):
    class Closed(type):
        def __setattr__(cls, name, value):
            raise TypeError("closed")

    class Fixed(nn.Module, metaclass=Closed):
        def forward(self, x):
            return x + 1

    class Secret(nn.Module):
        def children(self):
            raise RuntimeError("secret")

        def forward(self, x):
            return x * 2

    record(pattern="nothing")
    assert nn.Sequential(Fixed(), Secret())(torch.ones(1)).item() == 4
    assert Secret()(torch.ones(1)).item() == 2


def test_calls_hold_nothing_and_a_module_may_be_freed_and_another_take_its_place(record):
    """Some of the calls fail."""

    class Plain(nn.Module):
        def forward(self, x, *, fails=False):
            if fails:
                raise KeyError(x)
            return x

    class Frees(nn.Module):
        def forward(self, held):
            held.clear()
            return len(held)

    ranges = record(pattern="Plain|Frees", backward=False)
    model, unnamed, given = Plain(), nn.Identity(), object()

    def call(times):
        for number in range(times):
            assert model(given) is given and unnamed(input=given) is given
            with contextlib.suppress(KeyError):
                model(given, fails=number % 3 == 0)
            held = [Frees()]
            assert held[0](held) == 0
            ranges.events.clear()

    call(100)
    text = ranges.layers.texts[id(model)]
    values = (model, unnamed, given, text, None, False, ranges.layers.texts)
    tracemalloc.start()
    before, (size, _) = [sys.getrefcount(value) for value in values], tracemalloc.get_traced_memory()
    call(2000)
    after, (larger, _) = [sys.getrefcount(value) for value in values], tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert all(abs(one - other) < 50 for one, other in zip(before, after, strict=True))
    assert larger - size < 50_000
    assert len(ranges.layers.texts) == 2 and not ranges.stack
