"""Remedies in real programs of torch on the CPU: each takes effect and shows it, or says why it does not."""

import sys

import numpy as np
import pytest

from nsysprof.capture.user_program.policy_environment import REMEDIES
from nsysprof.capture.user_program.time_program import TimedProgram, run_timed
from nsysprof.results.program_runs import OK, StepSource

pytest.importorskip("torch", reason="needs the extra [torch]")

TRAINING = """
import torch, torch.nn as nn
torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.benchmark = False
net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.Flatten(), nn.Linear(8 * 12 * 12, 10))
optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
data = torch.utils.data.TensorDataset(torch.randn(96, 3, 16, 16), torch.randint(0, 10, (96,)))
for x, y in torch.utils.data.DataLoader(data, batch_size=8):
    optimizer.zero_grad(set_to_none=False)
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
"""
INFERENCE = """
import torch
net = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)).eval()
with torch.no_grad():
    for step in range(12):
        net(torch.randn(8, 16))
"""
UNDOING = """
import gc, torch
layer = torch.nn.Linear(8, 8)
optimizer = torch.optim.Adam(layer.parameters())
for step in range(6):
    layer(torch.randn(2, 8)).sum().backward()
    optimizer.step()
    for group in optimizer.param_groups:
        group["fused"] = False
    gc.unfreeze()
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return a function that runs a program with remedies, and gives what was measured."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logs").mkdir()

    def run_program(text, remedies="", **options):
        (tmp_path / "program.py").write_text(text)
        program = TimedProgram((sys.executable, "program.py"), is_remedied=True, timeout_s=300.0, **options)
        environment = {"PATH": "/usr/bin:/bin", REMEDIES: remedies}
        done = run_timed(program, "baseline", 0, environment, tmp_path / "logs", lambda: False)
        assert done.status == OK, done.reason
        return done

    return run_program


def told(done):
    return {effect.name: effect for effect in done.effects}


def test_each_remedy_takes_effect_in_a_training_and_says_whose_setting_it_replaced(run, tmp_path):
    remedies = (
        "tf32", "cudnn_benchmark", "channels_last", "autocast", "optimizer=fused", "free_gradients", "loader=1",
        "freeze_garbage",
    )  # fmt: skip
    effects = told(run(TRAINING, ",".join(remedies)))
    assert {*effects} == {*remedies}
    assert {name: effect.evidence for name, effect in effects.items() if not effect.took_effect} == {}
    assert effects["tf32"].evidence == "matmul is high, cudnn.allow_tf32 is True"
    assert effects["tf32"].replaced == (f"matmul = highest at {tmp_path}/program.py:3",)
    assert effects["cudnn_benchmark"].replaced == (f"cudnn.benchmark = False at {tmp_path}/program.py:4",)
    assert effects["free_gradients"].replaced == (f"set_to_none = False at {tmp_path}/program.py:9",)
    assert effects["channels_last"].evidence == "2 of 2 weights of convolutions are in channels_last"


def test_what_the_program_does_by_itself_is_told_with_its_lines(run, tmp_path):
    traits = run(TRAINING).traits
    assert traits.optimizer_steps == traits.outer_calls == 12
    (module,), (optimizer,), (loader,) = traits.modules, traits.optimizers, traits.loaders
    assert (module["kind"], module["device"], module["convolutions"]) == ("Sequential", "cpu", 2)
    assert module["place"] == f"{tmp_path}/program.py:10"
    assert (optimizer["kind"], optimizer["place"]) == ("AdamW", f"{tmp_path}/program.py:6")
    assert (loader["place"], loader["asked_workers"]) == (f"{tmp_path}/program.py:8", 0)
    assert ("matmul", "highest", f"{tmp_path}/program.py:3") in traits.settings


@pytest.mark.slow
def test_the_same_seed_gives_the_same_values_and_another_precision_others(run):
    one, again, other = run(TRAINING, seed=7).samples, run(TRAINING, seed=7).samples, run(TRAINING, seed=8).samples
    assert one.gradients == again.gradients
    assert one.losses == again.losses
    assert (len(one.losses), one.steps) == (12, 10)
    assert one.gradients != other.gradients
    lowered = run(TRAINING, "autocast", seed=7).samples
    assert 0 < abs(lowered.losses[0] - one.losses[0]) < 0.02 * one.losses[0]


@pytest.mark.slow
def test_rounded_weights_move_the_gradients_by_what_a_rounding_of_that_size_does(run):
    exact = np.array(run(TRAINING, seed=7).samples.gradients)
    fine, coarse = (np.array(run(TRAINING, f"rounded={bits}", seed=7).samples.gradients) for bits in (22, 10))
    fine_error, coarse_error = (np.linalg.norm(one - exact) / np.linalg.norm(exact) for one in (fine, coarse))
    assert 0 < fine_error < 1e-5
    assert 1e-4 < coarse_error < 1e-1


def test_calls_of_the_outermost_module_are_steps_where_there_is_no_optimizer(run):
    done = run(INFERENCE)
    assert (done.source, len(done.times_ns)) == (StepSource.CALLS, 10)
    assert [len(output) for output in done.samples.outputs] == [32, 32, 32]
    effects = told(run(INFERENCE, "optimizer=fused,loader=2,channels_last,nothing"))
    assert not any(effect.took_effect for effect in effects.values())
    assert effects["optimizer=fused"].evidence == "no optimizer of torch takes a step"
    assert effects["loader=2"].evidence == "the program makes no DataLoader"
    assert effects["nothing"].evidence == "ValueError: there is no remedy nothing"


def test_a_remedy_that_the_program_undoes_is_not_said_to_be_in_force(run):
    effects = told(run(UNDOING, "optimizer=fused,freeze_garbage"))
    assert not any(effect.took_effect for effect in effects.values())
    assert "the program undoes it" in effects["optimizer=fused"].evidence


def test_a_long_program_ends_after_the_steps_that_are_wanted(run):
    done = run("import atexit\natexit.register(lambda: print('ended'))\n" + TRAINING, end_steps=5)
    assert (done.traits.optimizer_steps, done.traits.ended_early) == (5, True)
    late = run(INFERENCE.replace("range(12)", "range(40)"), end_s=0.0001).traits
    assert (late.outer_calls, late.ended_early) == (12, True)


@pytest.mark.slow
def test_a_compiled_module_shows_its_graphs(run):
    effects = told(run(INFERENCE, "compile"))
    assert effects["compile"].took_effect, effects["compile"].evidence
    assert effects["compile"].evidence.endswith("graphs of Sequential")


@pytest.mark.slow
def test_a_module_that_torch_cannot_compile_is_not_said_to_be_undone_by_the_program(run):
    net = "torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))"
    effects = told(run(INFERENCE.replace(net, "torch.nn.LSTM(16, 4)"), "compile"))
    assert not effects["compile"].took_effect
    assert effects["compile"].evidence.startswith("torch.compile makes no graph of LSTM")
    assert "undoes" not in effects["compile"].evidence


ACCUMULATING = """
import os, sys, torch
import torch.distributed as dist
dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
reduced = []
model.register_comm_hook(None, lambda _state, bucket: reduced.append(1) or dist.all_reduce(
    bucket.buffer(), async_op=True).get_future().then(lambda done: done.value()[0]))
for step in range(9):
    optimizer.zero_grad()
    for number in range(4 if step < 8 else 2):
        model(torch.full((2, 8), 1.0 + number)).square().mean().backward()
    optimizer.step()
print("reduced", len(reduced), "sum", round(sum(item.sum().item() for item in model.parameters()), 4))
"""


def test_gradients_are_reduced_once_a_step_and_are_the_same(run, capfd):
    plain, once = (run(ACCUMULATING, remedy) for remedy in ("", "ddp_no_sync"))
    assert (plain.traits.optimizer_steps, plain.traits.outer_calls) == (9, 34)
    (effect,) = once.effects
    assert effect.took_effect, effect.evidence
    # The number is known after two steps; six reduce in the fourth pass alone, and the last one ends after its second.
    assert effect.evidence == "20 of 34 backward passes reduce no gradients"
    assert once.samples.gradients == plain.samples.gradients
    assert once.samples.losses == pytest.approx(plain.samples.losses)


@pytest.mark.slow
def test_one_pass_a_step_leaves_nothing_to_reduce_once(run):
    (effect,) = run(ACCUMULATING.replace("4 if step < 8 else 2", "1"), "ddp_no_sync").effects
    assert not effect.took_effect
    assert effect.evidence == "each step has one backward pass, or steps differ"
