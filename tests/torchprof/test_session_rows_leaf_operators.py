import itertools

from hypothesis import given
from hypothesis import strategies as st

from nsysprof.torchprof.session_rows import Operator, select_leaves


def op(name, start, duration, tid=1):
    return Operator(f"aten::{name}", tid, start, duration)


def names(events):
    return [event.name.removeprefix("aten::") for event in select_leaves(events)]


def test_a_fused_operator_that_transposes_views_inside_is_one_leaf():
    events = [
        op("scaled_dot_product_attention", 0, 100),
        op("_scaled_dot_product_flash_attention_for_cpu", 5, 90),
        op("transpose", 10, 5),
        op("as_strided", 11, 2),
        op("empty", 20, 1),
    ]
    assert names(events) == ["_scaled_dot_product_flash_attention_for_cpu"]


def test_a_composite_gives_way_to_its_workers():
    events = [
        op("matmul", 0, 100),
        op("expand", 1, 2),
        op("bmm", 10, 80),
        op("softmax", 200, 50),
        op("_softmax", 201, 48),
    ]
    assert names(events) == ["bmm", "_softmax"]


def test_multiplying_by_a_number_is_one_multiplication_and_no_copy():
    events = [op("mul", 0, 100), op("to", 1, 9), op("_to_copy", 2, 7), op("copy_", 3, 3)]
    assert names(events) == ["mul"]


def test_a_fill_counts_unless_it_is_part_of_a_leaf():
    assert names([op("fill_", 0, 3)]) == ["fill_"]
    assert names([op("ones_like", 0, 9), op("empty_like", 1, 1), op("fill_", 3, 3)]) == ["ones_like"]
    assert names([op("zeros", 0, 9), op("zero_", 1, 5), op("fill_", 2, 3)]) == ["zeros"]


def test_threads_are_apart():
    assert names([op("matmul", 0, 100, tid=1), op("bmm", 10, 10, tid=2)]) == ["matmul", "bmm"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["bmm", "view", "matmul", "copy_", "fill_"]),
            st.integers(0, 50),
            st.integers(0, 20),
        ),
        max_size=30,
    )
)
def test_leaves_never_overlap_when_operators_nest(drawn):
    # Nested by construction: each event is clipped into the one before it or starts after it.
    events, stack = [], []
    clock = 0
    for name, skip, length in drawn:
        start = clock + skip
        while stack and stack[-1] <= start:
            stack.pop()
        end = min([start + length, *stack])
        events.append(op(name, start, end - start))
        stack.append(end)
        clock = start
    leaves = select_leaves(events)
    for before, after in itertools.pairwise(leaves):
        assert before.start_ns + before.duration_ns <= after.start_ns or after.duration_ns == 0
