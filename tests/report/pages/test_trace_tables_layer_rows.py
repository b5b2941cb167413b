"""Equal layers are one row, and the one that differs is named."""

import pandas as pd

from nsysprof.report.pages.trace_tables import fold_layers


def row(layer, total, way="forward", kind="Block"):
    return {"layer": layer, "pass": way, "calls": 1, "kernel_count": 2, "kernel_total_ns": total, "class": kind}


def test_equal_layers_are_folded_and_the_odd_one_is_named():
    table = pd.DataFrame([
        *(row(f"layers.{number}", 100 + number) for number in range(4)), row("layers.4", 300), row("head", 50),
        *(row(f"layers.{number}.mlp", 10, kind="Mlp") for number in range(5)),
    ])  # fmt: skip
    folded = fold_layers(table).set_index("layer")
    assert list(folded.index) == ["layers.[0-4]", "head", "layers.[0-4].mlp"]
    blocks = folded.loc["layers.[0-4]"]
    assert (blocks["modules"], blocks["own_ns"], blocks["total_ns"]) == (5, 706, 756)
    assert blocks["odd"] == "layers.4: 2.8 times the median"
    assert folded.loc["layers.[0-4].mlp", "odd"] == ""


def test_a_name_that_looks_like_a_folded_one_is_another_layer():
    assert set(fold_layers(pd.DataFrame([row("x.*", 1), row("x.1", 1), row("x.2", 1)]))["layer"]) == {"x.*", "x.[1-2]"}


def test_layers_of_other_classes_or_with_gaps_are_told_apart():
    table = pd.DataFrame([row("x.0", 1), row("x.2", 1), row("x.1", 1, kind="Other"), row("x.2.3", 1), row("x.2.4", 1)])
    assert set(fold_layers(table)["layer"]) == {"x.[0,2]", "x.1", "x.2.3", "x.2.4"}
