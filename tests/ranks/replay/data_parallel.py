"""A data-parallel training of several ranks as traces, whose step is known for any communication."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.analysis.programs import US, Program

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
COMPUTATION, COMMUNICATION, ACTIVATIONS = 7, 17, 27


@dataclass(frozen=True)
class Training:
    """What the ranks do in a step: micro-steps of some layers, whose gradients are reduced in the backward pass.

    slower_ns: how much longer each kernel of the last rank takes. reduces_always: whether each micro-step reduces.
    buckets: how many messages a micro-step sends. launch_ns: what the host does before each reduction.
    host_ns: what it does after each micro-step.
    adds_up: whether all ranks add up their activations after each layer, as in tensor parallelism.
    """

    ranks: int = 2
    steps: int = 6
    micro: int = 3
    layers: int = 8
    kernel_ns: int = 200 * US
    slower_ns: int = 0
    transfer_ns: int = 600 * US
    buckets: int = 2
    reduces_always: bool = False
    launch_ns: int = 0
    host_ns: int = 0
    adds_up: bool = False

    def write(self, folder: Path) -> list[Path]:
        """Write the trace of each rank."""
        programs, _ = self._run()
        folder.mkdir(parents=True, exist_ok=True)
        return [program.builder.write(folder / f"rank{rank}.sqlite") for rank, program in enumerate(programs)]

    def step_ns(self) -> float:
        """Return how long the later steps take, by the clock of the test."""
        _, ends = self._run()
        return (ends[-1] - ends[1]) / (len(ends) - 2)

    def _run(self) -> tuple[list[Program], list[int]]:
        programs = [Program() for _ in range(self.ranks)]
        ends = []
        for program in programs:
            program.builder.gpu()
        for _ in range(self.steps):
            begins = [program.now for program in programs]
            for number in range(self.micro):
                self._micro_step(programs, reduces=self.reduces_always or number == self.micro - 1)
            for program, begin in zip(programs, begins, strict=True):
                program.launch(100 * US, "FusedAdamMathFunctor")
                program.wait()
                program.step(begin)
            ends.append(max(program.now for program in programs))
        return programs, ends

    def _micro_step(self, programs: list[Program], *, reduces: bool) -> None:
        for name in ("embedding", "nll_loss_forward"):
            for program in programs:
                program.launch(50 * US, name)
        for layer in range(1, self.layers + 1):
            for rank, program in enumerate(programs):
                slower = self.slower_ns if rank == self.ranks - 1 else 0
                program.host(5 * US)
                program.launch(self.kernel_ns + slower, "gemm")
            if self.adds_up:
                self._reduce(programs, ACTIVATIONS)
                for program in programs:
                    program.wait_stream(COMPUTATION, ACTIVATIONS)
            if reduces and layer % (self.layers // self.buckets) == 0:
                self._reduce(programs)
        for program in programs if reduces else ():
            program.wait_stream(COMPUTATION, COMMUNICATION)
        for program in programs:
            program.host(self.host_ns)

    def _reduce(self, programs: list[Program], stream: int = COMMUNICATION) -> None:
        """Let all ranks leave a collective when the last one has come."""
        begun = []
        for program in programs:
            program.host(self.launch_ns)
            program.wait_stream(stream, COMPUTATION)
            begun.append(max(program.now + program.launch_ns + US, program.free[stream] + US))
        end = max(begun) + self.transfer_ns
        for program, begin in zip(programs, begun, strict=True):
            program.launch(end - begin, ALL_REDUCE, stream)
