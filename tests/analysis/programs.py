"""Small programs as traces: training steps whose faults and times are known, because a clock of the test made them."""

from __future__ import annotations

from tests.builders.build_trace import TraceBuilder

US = 1_000
MS = 1_000_000
# A kernel that tells that a program uses torch.
OF_TORCH = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)"


class Program:
    """A thread that launches on one GPU as CUDA does: it runs ahead until something holds it up.

    launch_ns: what a launch takes the host; under a real profiler it is some 7 us. queue: how many kernels may be
    pending; a launch beyond them waits.
    """

    def __init__(self, launch_ns: int = 2 * US, queue: int = 1 << 30) -> None:
        self.queue = queue
        self.ends: list[int] = []
        self.builder = TraceBuilder()
        self.launch_ns = launch_ns
        self.now = 1 * MS
        self.free = {7: 0}
        self.number = 0

    def host(self, ns: int) -> None:
        """Let the host compute."""
        self.now += ns

    def _call(self, name: str, end: int) -> int:
        self.number += 1
        self.builder.call(self.now, end, self.number, name)
        return self.number

    def launch(self, ns: int, name: str = "gemm", stream: int = 7) -> None:
        """Add a kernel of `ns` ns, which the GPU sees 1 us after its launch."""
        done = self.now + self.launch_ns
        if len(self.ends) >= self.queue:
            done = max(done, self.ends[-self.queue] + 2 * US)
        start = max(done + 1 * US, self.free.get(stream, 0) + 1 * US)
        number = self._call("cudaLaunchKernel_v7000", done)
        self.builder.kernel(start, start + ns, number, name, stream=stream)
        self.free[stream] = start + ns
        self.ends.append(start + ns)
        self.now = done

    def graph(self, kernels: int, ns: int, name: str) -> None:
        """Add a replayed graph of kernels that were traced one by one."""
        number = self._call("cudaGraphLaunch_v10000", self.now + 8 * US)
        start = max(self.now + 10 * US, self.free[7] + 1 * US)
        for _ in range(kernels):
            self.builder.kernel(start, start + ns, number, name, node=1)
            start += ns + 1 * US
        self.free[7] = start
        self.now += 8 * US

    def wait(self, name: str = "cudaDeviceSynchronize_v3020") -> None:
        """Let the host wait for the GPU, and return 5 us later."""
        end = max(self.now, *self.free.values()) + 5 * US
        self._call(name, end)
        self.now = end

    def copy(self, size: int, ns: int, host: int = 0, kind: int = 1) -> None:
        """Add a copy to the device (kind 1) or to the host (2), which holds up the host if its memory is pageable."""
        start = max(self.now + 3 * US, self.free[7] + 1 * US)
        end = start + ns + 5 * US if host == 0 else self.now + 5 * US
        number = self._call("cudaMemcpyAsync_v3020", end)
        self.builder.copy(start, start + ns, number, size, kind, host=host)
        self.free[7], self.now = start + ns, end

    def call(self, name: str, ns: int, *, waits: bool = False) -> None:
        """Any other call; `waits`: it begins when the GPU is done, as cudaFree does."""
        start = max(self.now, *self.free.values()) if waits else self.now
        self._call(name, start + ns)
        self.now = start + ns

    def wait_stream(self, stream: int, other: int) -> None:
        """Work in `stream` begins after what is in `other`."""
        self._call("cudaStreamWaitEvent_v3020", self.now + 1 * US)
        self.now += 1 * US
        self.free[stream] = max(self.free.get(stream, 0), self.free.get(other, 0) + 1 * US)

    def step(self, begin: int, name: str = "step") -> None:
        """Close a range that began at `begin`."""
        self.builder.range(begin, self.now, name)


def train(*, steps: int = 8, faults: tuple[str, ...] = (), kernel_ns: int = 200 * US) -> tuple[TraceBuilder, float]:
    """Return a training of steps with 20 kernels as a trace, and the ns of a step once it is steady."""
    program = Program()
    bounds = []
    for _ in range(steps):
        begin = program.now
        bounds.append(max(program.free.values()))
        if "pageable-copy" in faults:
            program.copy(256 << 20, 40 * MS)
        if "sleeping-loader" in faults:
            program.host(20 * MS)
        for number in range(20):
            program.host(5 * US)
            program.launch(kernel_ns)
            if "sync" in faults:
                program.wait()
                program.host(150 * US)
            if "alloc-in-loop" in faults and number % 5 == 0:
                program.call("cudaFree_v3020", 900 * US, waits=True)
                program.call("cudaMalloc_v3020", 300 * US)
        program.step(begin)
    return program.builder, (max(program.free.values()) - bounds[1]) / (steps - 1)
