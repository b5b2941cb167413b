"""Choose the operators of a CPU profile that did the work: the leaves, chosen by structure and never by time.

Views and allocations move no data and are left out. An operator whose only children are views, allocations and fills is
a leaf, and its time includes theirs. For example, torch's fused CPU attention transposes views inside the operator that
does all the work. Some operators are known to compute by themselves, and are leaves whatever they call: `mul` by a
Python number converts that number by a copy, which must not replace the multiplication.
"""

from __future__ import annotations

from typing import NamedTuple

_VIEWS = {
    "alias", "as_strided", "as_strided_", "chunk", "detach", "detach_", "diagonal", "expand", "expand_as", "flatten",
    "lift_fresh", "movedim", "mT", "narrow", "numpy_T", "permute", "real", "reshape", "resize_", "resolve_conj",
    "resolve_neg", "select", "set_", "slice", "split", "split_with_sizes", "squeeze", "squeeze_", "swapaxes", "t",
    "t_", "transpose", "transpose_", "unbind", "unflatten", "unsafe_view", "_unsafe_view", "unsqueeze", "unsqueeze_",
    "view", "view_as", "_reshape_alias", "_conj", "to", "result_type", "is_nonzero", "item",
}  # fmt: skip
_ALLOCATIONS = {
    "empty",
    "empty_like",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
    "_local_scalar_dense",
}
_IDLE = _VIEWS | _ALLOCATIONS
_FILLS = {"fill_", "zero_"}
_WORKERS = {
    "_log_softmax", "_log_softmax_backward_data", "_softmax", "_softmax_backward_data", "add", "add_", "addmm",
    "baddbmm", "baddbmm_", "bmm", "div", "div_", "exp", "masked_fill_", "maximum", "mean", "mm", "mul", "mul_", "pow",
    "rsqrt", "sigmoid", "sub", "sub_", "sum", "tanh", "where",
}  # fmt: skip


class Operator(NamedTuple):
    """One call of an operator. thread: a number that distinguishes threads."""

    name: str
    thread: int
    start_ns: int
    duration_ns: int


def select_leaves(operators: list[Operator]) -> list[Operator]:
    """Return the leaf operators in order of start. Leaves of one thread never overlap."""
    leaves: list[Operator] = []
    by_thread: dict[int, list[Operator]] = {}
    for operator in operators:
        by_thread.setdefault(operator.thread, []).append(operator)
    for of_thread in by_thread.values():
        leaves += _thread_leaves(of_thread)
    return sorted(leaves, key=lambda operator: operator.start_ns)


def _thread_leaves(operators: list[Operator]) -> list[Operator]:
    ordered = sorted(operators, key=lambda operator: (operator.start_ns, -operator.duration_ns))
    parents = _parents(ordered)
    works = [_base_name(operator.name) not in _IDLE for operator in ordered]
    fills = [_base_name(operator.name) in _FILLS for operator in ordered]
    has_work = [False] * len(ordered)  # whether it has a descendant other than a view, an allocation or a fill
    for index in range(len(ordered) - 1, -1, -1):
        parent = parents[index]
        if parent >= 0 and (has_work[index] or (works[index] and not fills[index])):
            has_work[parent] = True
    leaves: list[Operator] = []
    inside_leaf = [False] * len(ordered)
    for index, operator in enumerate(ordered):
        parent = parents[index]
        inside_leaf[index] = parent >= 0 and inside_leaf[parent]
        leaf = works[index] and (not has_work[index] or _base_name(operator.name) in _WORKERS)
        if leaf and not inside_leaf[index]:
            leaves.append(operator)
            inside_leaf[index] = True
    return leaves


def _parents(ordered: list[Operator]) -> list[int]:
    """Return the index of each operator's innermost enclosing operator, or -1."""
    parents: list[int] = []
    stack: list[tuple[int, int]] = []
    for index, operator in enumerate(ordered):
        end = operator.start_ns + operator.duration_ns
        while stack and stack[-1][1] < end:
            stack.pop()
        parents.append(stack[-1][0] if stack else -1)
        stack.append((index, end))
    return parents


def _base_name(name: str) -> str:
    return name.removeprefix("aten::")
