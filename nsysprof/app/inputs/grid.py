"""Define the grid: the shapes and backends that capture, bench and tune measure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from nsysprof.app.inputs.option import CAUSAL, NAMES, SIZES, WINDOW, Option
from nsysprof.app.inputs.options import GRID
from nsysprof.attention.case import Case, expand_grid
from nsysprof.attention.choices import BACKENDS, DTYPES, PASSES, PLUGINS

# Lists are separated by commas.
Backends = Annotated[
    tuple[str, ...],
    Option(
        f"Backends: {', '.join((*BACKENDS, *PLUGINS))}, a registered one, or your own module:function.",
        panel=GRID,
        form=NAMES,
    ),
]
Seqs = Annotated[tuple[int, ...], Option("Sequence lengths of q.", ("--seq",), GRID, form=SIZES)]
Batches = Annotated[tuple[int, ...], Option("Batch sizes.", ("--batch",), GRID, form=SIZES)]
Heads = Annotated[tuple[int, ...], Option("Head counts of q.", panel=GRID, form=SIZES)]
KvSeqs = Annotated[
    tuple[int, ...],
    Option("Sequence lengths of k and v. Default: the lengths of q.", ("--kv-seq",), GRID, form=SIZES),
]
KvHeads = Annotated[
    tuple[int, ...],
    Option("Head counts of k and v, each a divisor of --heads. Default: as many as q.", panel=GRID, form=SIZES),
]
HeadDims = Annotated[tuple[int, ...], Option("Head dimensions.", ("--head-dim",), GRID, form=SIZES)]
Dtypes = Annotated[
    tuple[str, ...],
    Option(f"Dtypes: {', '.join(DTYPES)}. Default: fp16 on a GPU, fp32 on the CPU.", ("--dtype",), GRID, form=NAMES),
]
Causals = Annotated[tuple[bool, ...], Option("Whether the mask is causal.", ("--causal",), GRID, form=CAUSAL)]
WindowSize = Annotated[
    tuple[int | None, int | None] | None,
    Option(
        "Keys that a query sees before and after its place, counted from the last, as in FlashAttention; -1 for all.",
        ("--window",),
        GRID,
        "LEFT,RIGHT",
        form=WINDOW,
    ),
]


@dataclass(frozen=True)
class Grid:
    """The values of each dimension. Every combination is a case.

    kv_heads, kv_seqs: heads and lengths of k and v; empty for those of q.
    dtypes: empty for the dtype that suits the device.
    causals: empty for a causal mask, unless there is another mask.
    window: the keys before and after its place that a query sees, each None for all; None for no window.
    """

    backends: Backends = ("math", "flash")
    seqs: Seqs = (1024, 2048, 4096)
    batches: Batches = (1,)
    heads: Heads = (8,)
    kv_heads: KvHeads = ()
    head_dims: HeadDims = (64,)
    dtypes: Dtypes = ()
    causals: Causals = ()
    passes: Annotated[tuple[str, ...], Option(f"Passes: {', '.join(PASSES)}.", ("--pass",), GRID, form=NAMES)] = (
        "fwd",
    )
    kv_seqs: KvSeqs = ()
    masks: Annotated[
        tuple[str, ...],
        Option(
            "Masks instead of the causal one: bool, float, learned; bool:b11k has these axes.",
            ("--mask",),
            GRID,
            form=NAMES,
        ),
    ] = ("none",)
    window: WindowSize = None

    def expand(self, default_dtype: str = "fp16") -> list[Case]:
        """Return every case of the grid. Raises UsageError for impossible combinations.

        default_dtype: the dtype where the grid names none.
        """
        return expand_grid(
            backends=self.backends,
            seqs=self.seqs,
            batches=self.batches,
            heads=self.heads,
            kv_heads=self.kv_heads,
            head_dims=self.head_dims,
            dtypes=self.dtypes or (default_dtype,),
            causals=self.causals,
            passes=self.passes,
            kv_seqs=self.kv_seqs,
            masks=self.masks,
            window=self.window,
        )
