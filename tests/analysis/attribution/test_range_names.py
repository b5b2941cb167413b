import pandas as pd

from nsysprof.analysis.attribution.range_names import name_families, name_steps, strip_numbers, strip_ranges


def test_the_numbers_of_emit_nvtx_are_taken_off():
    names = [
        "aten::mul, op_id = 12", "aten::add, seq = 7, op_id = 3", "MulBackward0, op_id = 4, seq = 9",
        "aten::mm, op_id = 5, sizes = [[2, 3], []], input_op_ids = [(1,0)]", "forward", "load, seq = many",
        "a, op_id = 3 of mine", ", op_id = 3",
    ]  # fmt: skip
    found = strip_numbers(names)
    assert found.names == ["aten::mul", "aten::add", "MulBackward0", "aten::mm", *names[4:]]
    assert found.op_id.tolist() == [12, 3, 4, 5, -1, -1, -1, -1]
    assert found.seq.tolist() == [-1, 7, 9, -1, -1, -1, -1, -1]
    table = strip_ranges(pd.DataFrame({"name": ["relu, seq = 1", "relu, seq = 2", "step"]}))
    assert table["name"].tolist() == ["relu", "relu", "step"] and table["seq"].tolist() == [1, 2, -1]


def test_counters_fold_and_sizes_do_not():
    assert name_families(["step0", "step1", "step10", "optim", "step2"]) == ["step#"] * 3 + ["optim", "step#"]
    sizes = ["RUN::math::S1024", "RUN::math::S2048", "RUN::math::S4096"]
    assert name_families(sizes) == sizes
    assert name_families(["bf16", "fp8", "step 100", "step 200"]) == ["bf16", "fp8", "step 100", "step 200"]
    assert name_families([f"step {n}" for n in (100, 200, 300)]) == ["step #"] * 3
    blocks = [f"layers.{n}.mlp{k}" for n in range(4) for k in (1, 2)]
    assert set(name_families(blocks)) == {"layers.#.mlp1", "layers.#.mlp2"} or set(name_families(blocks)) == {
        "layers.#.mlp#"
    }
    assert name_families([f"H100 layer{n}" for n in range(3)]) == ["H100 layer#"] * 3


def test_steps_fold_and_layers_keep_their_names():
    names = ["step0", "step1", "step2", "layer0", "layer1", "layer2", "token0", "token1", "token2"]
    once = name_steps(names, [1] * 9)
    assert once == ["step#"] * 3 + ["layer0", "layer1", "layer2"] + ["token#"] * 3
    assert name_steps(["step0", "step1", "step2"], [1, 2, 1]) == ["step0", "step1", "step2"], "they come again"
    assert set(name_steps([f"round{n}" for n in range(300)], [1] * 300)) == {"round#"}


def test_numbers_of_a_run_that_xla_writes_are_not_compared():
    names = [
        "Thunk:#name=dot,hlo_op=fusion.2,unique_hlo_op_id=9934615#", "XlaModule:#hlo_module=jit_step,program_id=6633#",
        "XlaPass:#name=cse,module=dot.1,program_id=12#", "load,program_id=3", "step4",
    ]  # fmt: skip
    assert name_steps(names, [1] * len(names)) == [
        "Thunk:#name=dot,hlo_op=fusion.2#", "XlaModule:#hlo_module=jit_step#", "XlaPass:#name=cse,module=dot.1#",
        "load,program_id=3", "step4",
    ]  # fmt: skip
