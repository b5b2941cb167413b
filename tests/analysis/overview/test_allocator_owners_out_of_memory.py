"""What held the memory when an allocation failed is known by kind, and adds up; advice says what is enough."""

import pytest

from nsysprof.analysis.overview.allocator_owners import explain_failure, find_out_of_memory
from nsysprof.torchprof.allocator_history import read_allocator_history
from tests.builders.allocator_snapshot import SnapshotBuilder, frames

MIB = 1 << 20
FORWARD = frames("/w/model.py", 12, "forward")


def training(**facts):
    """Return a training with 10 MiB of parameters, 10 of gradients, 80 of optimizer state, 300 of activations."""
    builder = SnapshotBuilder()
    sizes = {"parameters": 10, "gradients": 10, "optimizer-state": 80, "held": 5}
    tensors = []
    for kind, size in sizes.items():
        address = builder.alloc(size * MIB, frames("/w/train.py", len(tensors), "build"))
        tensors.append((kind, f"name.{kind}", address, 4))
    for _ in range(3):
        builder.alloc(100 * MIB, FORWARD)
    builder.reserve(450 * MIB)
    builder.empty_segments = [20 * MIB]
    known = {"tensors": tensors, "limit_bytes": 600 * MIB, "total_bytes": 600 * MIB} | facts
    builder.fail(100 * MIB, 40 * MIB, FORWARD, **known)
    return builder


def explain(builder, folder, **options):
    return explain_failure(read_allocator_history(builder.write(folder / "s.pickle")), **options)


def test_kinds_add_up_to_the_device(tmp_path):
    failure = explain(training(), tmp_path, is_fatal=True)
    assert failure.by_kind == {
        "activations": 300 * MIB, "optimizer-state": 80 * MIB, "parameters": 10 * MIB, "gradients": 10 * MIB,
        "held": 5 * MIB, "cache": 20 * MIB, "fragmentation": 45 * MIB,
    }  # fmt: skip
    assert sum(failure.by_kind.values()) + failure.free_bytes + failure.outside_bytes == 600 * MIB
    assert sum(row.bytes for row in failure.holdings) == 405 * MIB
    first = failure.holdings[0]
    assert (first.kind, first.layer, first.owner, first.block_count) == (
        "activations", "torch.nn linear", "w/model.py:12 forward", 3,
    )  # fmt: skip
    layers = {row.kind: row.layer for row in failure.holdings}
    assert (layers["parameters"], layers["optimizer-state"]) == ("name.parameters", "torch.nn linear")
    said = " ".join(failure.lines)
    assert "100 MiB were asked for by w/model.py:12 forward in torch.nn linear, and 40 MiB were free" in said
    assert "The process ended because of it." in said


def test_advice_says_what_is_enough(tmp_path):
    failure = explain(training(losses=9, world_size="4"), tmp_path)
    remedies = {remedy.kind: remedy for remedy in failure.remedies}
    # 60 MiB are missing.
    enough = {kind for kind, remedy in remedies.items() if remedy.is_enough}
    assert enough == {"graph", "activations", "optimizer-state"}
    assert set(remedies) - enough == {"cache", "gradients", "held"}
    assert remedies["optimizer-state"].bytes == 60 * MIB
    assert "over the 4 ranks" in remedies["optimizer-state"].text
    assert "at least 15 %" in remedies["activations"].text  # 60 of 300 that are there and 100 that would be
    assert "9 results" in remedies["graph"].text
    assert failure.remedies[0].kind == "graph", "they would fill any room"
    (finding,) = find_out_of_memory([failure])
    assert (finding.code, finding.bytes) == ("out-of-memory", 100 * MIB)


def test_idle_pieces_are_fragmentation_unless_segments_can_grow(tmp_path):
    builder = SnapshotBuilder()
    builder.reserve(500 * MIB)
    builder.alloc(100 * MIB, FORWARD)
    builder.fail(200 * MIB, 0, FORWARD, limit_bytes=500 * MIB)
    builder.idle_pieces = [250 * MIB, 150 * MIB]
    failure = explain(builder, tmp_path)
    fragmentation = next(remedy for remedy in failure.remedies if remedy.kind == "fragmentation")
    assert (fragmentation.bytes, fragmentation.is_enough) == (380 * MIB, True), "in whole pages of 20 MiB"
    assert "but torch may use" not in failure.lines[0], "nothing was free"
    snapshot = builder.snapshot()
    snapshot["allocator_settings"]["expandable_segments"] = True
    builder.snapshot = lambda: snapshot
    assert all(remedy.kind != "fragmentation" for remedy in explain(builder, tmp_path).remedies)


def test_pieces_smaller_than_a_page_are_not_used_by_segments_that_grow(tmp_path):
    builder = SnapshotBuilder()
    builder.reserve(1000 * MIB)
    builder.alloc(500 * MIB, FORWARD)
    builder.fail(200 * MIB, 0, FORWARD, limit_bytes=1000 * MIB)
    builder.idle_pieces = [16 * MIB] * 31
    fragmentation = next(remedy for remedy in explain(builder, tmp_path).remedies if remedy.kind == "fragmentation")
    assert (fragmentation.bytes, fragmentation.is_enough) == (0, False)
    assert "cannot use pieces below 20 MiB" in fragmentation.text


def test_torchs_own_snapshot_has_no_kinds(tmp_path):
    builder = SnapshotBuilder()
    builder.reserve(100 * MIB)
    builder.alloc(100 * MIB, FORWARD)
    builder.fail(7 * MIB, 3 * MIB)
    failure = explain(builder, tmp_path)
    assert (failure.by_kind, failure.asked_bytes, failure.limit_bytes) == ({"unknown": 100 * MIB}, 7 * MIB, None)
    assert failure.is_fatal is None
    builder.alloc(1, FORWARD)  # the program went on before the snapshot
    assert explain(builder, tmp_path) is None


def test_layers_come_from_ranges_where_they_are_known(tmp_path):
    def layer_at(times):
        return ["backward of head (Linear)"] * len(times)

    builder = SnapshotBuilder()
    builder.alloc(9 * MIB)
    builder.fail(7 * MIB, 3 * MIB, tensors=[])
    failure = explain(builder, tmp_path, layer_at=layer_at)
    assert failure.layer == "backward of head (Linear)"
    assert failure.holdings[0].layer == "backward of head (Linear)"


@pytest.mark.parametrize(("frozen", "codes"), [(True, ["frozen-objects"]), (False, [])])
def test_frozen_objects_are_said(tmp_path, frozen, codes):
    assert [note.code for note in explain(training(has_frozen=frozen), tmp_path).notes] == codes
