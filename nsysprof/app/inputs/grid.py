"""Define the grid: the shapes and backends that capture, bench and tune measure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

from nsysprof.app.inputs.options import CAUSAL, GRID, NAMES, SIZES, WINDOW, Option
from nsysprof.attention.backend_limits import refuse_hopeless
from nsysprof.attention.mask import BACKENDS, CAUSAL_WINDOW, DTYPES, PASSES, PLUGINS, SERVED
from nsysprof.attention.shape import Case, Served, expand_grid, parse_batch_specs

# Lists are separated by commas.
Backends = Annotated[
    tuple[str, ...],
    Option(
        f"Backends: {', '.join((*BACKENDS, *PLUGINS, *SERVED))}, hub:OWNER/NAME, a registered one, or your own "
        "module:function.",
        form=NAMES,
    ),
]
Seqs = Annotated[tuple[int, ...], Option("Sequence lengths of q.", ("--seq",), form=SIZES)]
Batches = Annotated[tuple[int, ...], Option("Batch sizes.", ("--batch",), form=SIZES)]
Heads = Annotated[tuple[int, ...], Option("Head counts of q.", form=SIZES)]
KvSeqs = Annotated[
    tuple[int, ...], Option("Sequence lengths of k and v. Default: the lengths of q.", ("--kv-seq",), form=SIZES)
]
KvHeads = Annotated[
    tuple[int, ...], Option("Head counts of k and v, each a divisor of --heads. Default: as many as q.", form=SIZES)
]
HeadDims = Annotated[tuple[int, ...], Option("Head dimensions.", ("--head-dim",), form=SIZES)]
Dtypes = Annotated[
    tuple[str, ...],
    Option(f"Dtypes: {', '.join(DTYPES)}. Default: fp16 on a GPU, fp32 on the CPU.", ("--dtype",), form=NAMES),
]
Causals = Annotated[tuple[bool, ...], Option("Whether the mask is causal.", ("--causal",), form=CAUSAL)]
BatchSpecs = Annotated[
    tuple[str, ...],
    Option(
        "Batches in vLLM's grammar, such as 8q1s1k,q1ks4k,2q2k_32q1s1k. They replace the lengths and batch sizes.",
        ("--batch-spec",),
        metavar="SPEC",
        form=NAMES,
        excludes=("--seq", "--kv-seq", "--batch", "--causal", "--mask"),
    ),
]
HeadDimV = Annotated[
    int, Option("Head dimension of v, where it is another one, as in MLA.", min=0, shows_default=False)
]
Softcap = Annotated[
    float, Option("Bound of the scores: softcap * tanh(x / softcap), as in Gemma 2.", min=0, shows_default=False)
]
Sinks = Annotated[bool, Option("Give each head a sink, which takes part in its softmax, as in gpt-oss.")]
KvDtype = Annotated[Literal["same", "fp8"], Option("How k and v are stored: as q, or in fp8 (e4m3).")]
PageSize = Annotated[int, Option("Keys in a page of a paged cache. 0: no pages.", min=0, shows_default=False)]
WindowSize = Annotated[
    tuple[int | None, int | None] | None,
    Option(
        "Keys that a query sees before and after its place, counted from the last, as in FlashAttention; -1 for all.",
        ("--window",),
        metavar="LEFT,RIGHT",
        form=WINDOW,
    ),
]


@dataclass(frozen=True)
class Grid:
    """The values of each dimension. Every combination is a case. Sizes are as in Shape.

    causals: empty for a causal mask, unless there is another mask.
    window: the keys before and after its place that a query sees, each None for all; None for no window.
    """

    PANEL: ClassVar = GRID
    backends: Backends = ("math", "flash")
    seqs: Seqs = (1024, 2048, 4096)
    batches: Batches = (1,)
    heads: Heads = (8,)
    kv_heads: KvHeads = ()
    head_dims: HeadDims = (64,)
    dtypes: Dtypes = ()
    causals: Causals = ()
    passes: Annotated[tuple[str, ...], Option(f"Passes: {', '.join(PASSES)}.", ("--pass",), form=NAMES)] = ("fwd",)
    kv_seqs: KvSeqs = ()
    masks: Annotated[
        tuple[str, ...],
        Option(
            "Masks instead of the causal one: bool, float, learned; bool:b11k has these axes.", ("--mask",), form=NAMES
        ),
    ] = ("none",)
    window: WindowSize = None
    batch_specs: BatchSpecs = ()
    head_dim_v: HeadDimV = 0
    softcap: Softcap = 0.0
    sinks: Sinks = False
    kv_dtype: KvDtype = "same"
    page_size: PageSize = 0

    @property
    def served(self) -> Served:
        """Return what the attention of a served model has beside plain sizes."""
        return Served(*(getattr(self, name) for name in Served._fields))

    def expand(self, default_dtype: str = "fp16") -> list[Case]:
        """Return every case of the grid. Raises UsageError for impossible combinations.

        default_dtype: the dtype where the grid names none.
        """
        cases = self._expand_batches(default_dtype) if self.batch_specs else self._expand_sizes(default_dtype)
        refuse_hopeless(self.backends, list(dict.fromkeys(case.shape for case in cases)))
        return cases

    def _expand_sizes(self, default_dtype: str) -> list[Case]:
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
            served=self.served,
        )

    def _expand_batches(self, default_dtype: str) -> list[Case]:
        """Return the cases of all groups of the batches, where each query sees the keys up to its own."""
        grids = [
            replace(
                self,
                batch_specs=(),
                batches=(group.sequences,),
                seqs=(group.queries,),
                kv_seqs=(group.keys,),
                window=self.window or CAUSAL_WINDOW,
            )
            for group in parse_batch_specs(self.batch_specs)
        ]
        cases = dict.fromkeys(case for grid in grids for case in grid._expand_sizes(default_dtype))
        return sorted(cases, key=lambda case: self.backends.index(case.backend))
