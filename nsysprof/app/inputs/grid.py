"""Define the grid: the shapes and backends that capture, bench and tune measure."""

from __future__ import annotations

from dataclasses import dataclass

from nsysprof.attention.case import Case, expand_grid


@dataclass(frozen=True)
class Grid:
    """The values of each dimension. Every combination is a case.

    kv_heads: heads of k and v; empty for as many as q has.
    dtypes: empty for the dtype that suits the device.
    """

    backends: tuple[str, ...] = ("math", "flash")
    seqs: tuple[int, ...] = (1024, 2048, 4096)
    batches: tuple[int, ...] = (1,)
    heads: tuple[int, ...] = (8,)
    kv_heads: tuple[int, ...] = ()
    head_dims: tuple[int, ...] = (64,)
    dtypes: tuple[str, ...] = ()
    causals: tuple[bool, ...] = (True,)
    passes: tuple[str, ...] = ("fwd",)

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
        )
