"""Compare the traces of a program with what the program counted, and report which numbers are right."""

from __future__ import annotations

from dataclasses import dataclass, field

# Notes that say that something is missing.
SAYS_SO = ("no-kernels", "launches-without-kernels", "graph-nodes-lost", "process-lost", "busy-without-work",
           "import-failed", "events-lost", "still-lost", "sampling-overflow", "probe-lost")  # fmt: skip
AGAIN = "recorded-again"
DATA_LOSS = 12
# nsys delivers nothing of a process that is killed; the capture has to say so.
LOST = ("killed",)
# It delivers nothing of what a process did before it replaced itself either; the rest is there.
CUT = ("exec",)
# How programs end that are to end badly, or whose loss capture has to report; all others end with 0.
EXIT = {"killed": 137, "memory": 1, "exec": DATA_LOSS}


@dataclass
class Outcome:
    """What one program counted, and what the traces have. Kernels are counted by the program's own patterns."""

    name: str
    expected: int | None = None
    ours: int | None = None
    bare: int | None = None
    # All kernels, also those that the program's libraries launch for themselves.
    ours_total: int | None = None
    bare_total: int | None = None
    exit_code: int | None = None
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)
    # What the bare trace has and ours lacks.
    only_bare: list[str] = field(default_factory=list)
    # Samples of the CPU in the bare trace, which ours takes on request.
    bare_cpu_samples: int = 0
    names: dict[str, int] = field(default_factory=dict)
    problem: str = ""

    @property
    def is_right(self) -> bool:
        """Return whether the trace has what the program counted, and no less than a bare nsys."""
        if self.name in LOST and not self.ours:
            return not self.bare and self.is_said and self.exit_code == EXIT[self.name]
        if self.name in CUT and self.ours != self.expected:
            return self.ours == self.bare and self.is_said and self.exit_code == EXIT[self.name]
        return (
            self.expected is not None
            and self.ours == self.expected
            and self.exit_code == EXIT.get(self.name, 0)
            and not self.only_bare
        )

    @property
    def is_honest(self) -> bool:
        """Return whether the trace is right, or the capture says that something is missing."""
        return self.is_right or self.exit_code == DATA_LOSS or self.is_said

    @property
    def is_said(self) -> bool:
        """Return whether a note of the capture says that something is missing."""
        return any(code in SAYS_SO for code in self.notes)


@dataclass
class Planted:
    """A loss that was planted, and what capture did about it.

    expects: "caught": it ends with 12; "recovered": it records again and loses nothing; "again": it records again
        without what was lost, here whole graphs in place of their kernels; "silent": nothing was lost, and nothing
        is said; "honest": nothing was lost, or a note says it; "resampled": the same, or it records again with fewer
        samples.
    """

    loss: str
    program: str
    expects: str
    exit_code: int | None = None
    kernels: int | None = None
    expected: int | None = None
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def is_right(self) -> bool:
        """Return whether capture did what it is to do."""
        said = any(code in SAYS_SO for code in self.notes)
        if self.expects == "caught":
            return self.exit_code == DATA_LOSS and said
        if self.expects == "recovered":
            return self.exit_code == 0 and AGAIN in self.notes and self.kernels == self.expected
        if self.expects == "again":
            return self.exit_code == 0 and AGAIN in self.notes
        if self.expects in ("honest", "resampled") and said:
            return True
        if self.expects == "resampled" and AGAIN in self.notes:
            return self.exit_code == 0 and self.kernels == self.expected
        return self.exit_code == 0 and not said and AGAIN not in self.notes and self.kernels == self.expected


@dataclass
class ServerPart:
    """One recording of a server under load.

    steps: ranges of steps over all workers; per_step: the kernels that a worker counts for each.
    before_ms, during_ms, after_ms: the median time of a request.
    """

    steps: int
    kernels: int
    per_step: int
    workers: int
    before_ms: float | None
    during_ms: float | None
    after_ms: float | None
    survived: bool
    exit_code: int
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None

    @property
    def is_right(self) -> bool:
        """Return whether every step has its kernels; the step that was cut at the begin may have some in addition."""
        extra = self.kernels - self.steps * self.per_step
        return self.exit_code == 0 and self.survived and self.steps > 0 and 0 <= extra < self.workers * self.per_step
