#!/usr/bin/env python3
"""Run a known number of torch's kernels in one of several kinds of programs, and print how many.

    tests/captured_programs/counted_programs/torch_work.py KIND

KIND is eager, compile, graphs, spawn, fork, worker, server, killed, memory or exec.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ADD = "CUDAFunctorOnSelf_add|CUDAFunctor_add"


def expect(**counts: int) -> None:
    """Print how many kernels have names that match ADD, or another pattern, before the work is done."""
    pattern = {"add": ADD, "triton": "^triton_"}
    print("EXPECT " + json.dumps({pattern[name]: count for name, count in counts.items()}), flush=True)


def add(times: int, device: str = "cuda") -> None:
    import torch

    values = torch.zeros(1 << 16, device=device)
    for _ in range(times):
        values.add_(1)
    torch.cuda.synchronize()


def eager() -> None:
    expect(add=200)
    add(200)


def compile_() -> None:
    import torch
    import torch._inductor.config

    torch._inductor.config.triton.autotune_pointwise = False  # trials of a kernel are kernels too

    @torch.compile
    def step(values: torch.Tensor) -> torch.Tensor:
        return torch.sin(values) * 2 + values

    expect(triton=40)
    values = torch.zeros(1 << 16, device="cuda")
    for _ in range(40):
        values = step(values)
    torch.cuda.synchronize()


def graphs() -> None:
    import torch

    expect(add=330)
    values = torch.zeros(1 << 16, device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(30):
            values.add_(1)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(10):
            values.add_(1)
    for _ in range(30):
        graph.replay()
    torch.cuda.synchronize()


def spawn() -> None:
    import torch.multiprocessing as processes

    expect(add=100)
    context = processes.get_context("spawn")
    workers = [context.Process(target=add, args=(50,)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def fork() -> None:
    import torch  # noqa: F401  # loaded before the fork, as in a program with a pool of workers; CUDA is not

    expect(add=60)
    children = []
    for _ in range(2):
        child = os.fork()
        if child == 0:
            add(30)
            sys.exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


def worker() -> None:
    """Be one of two workers of torchrun, on one GPU."""
    import torch
    import torch.distributed as job

    job.init_process_group("gloo")
    if job.get_rank() == 0:
        expect(add=80)
    add(40)
    total = torch.ones(1)
    job.all_reduce(total)
    job.destroy_process_group()


def server() -> None:
    import torch

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            values = torch.ones(1 << 16, device="cuda")
            for _ in range(4):
                values.add_(1)
            body = str(float(values[0])).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            pass

    expect(add=160)
    torch.zeros(1, device="cuda")
    listening = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=listening.serve_forever, daemon=True).start()

    def ask() -> None:
        for _ in range(10):
            with urllib.request.urlopen(f"http://127.0.0.1:{listening.server_port}/", timeout=30) as reply:
                reply.read()

    clients = [threading.Thread(target=ask) for _ in range(4)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    listening.shutdown()


def killed() -> None:
    expect(add=100)
    add(100)
    time.sleep(3.0)
    os.kill(os.getpid(), signal.SIGKILL)


def memory() -> None:
    import torch

    expect(add=60)
    add(60)
    torch.empty(1 << 50, device="cuda", dtype=torch.uint8)


def exec_() -> None:
    if os.environ.pop("TORCH_WORK_AGAIN", ""):
        add(50)
        return
    expect(add=100)
    add(50)
    time.sleep(3.0)
    os.environ["TORCH_WORK_AGAIN"] = "yes"
    os.execv(sys.executable, [sys.executable, *sys.argv])


KINDS: dict[str, Callable[[], None]] = {
    "eager": eager, "compile": compile_, "graphs": graphs, "spawn": spawn, "fork": fork, "worker": worker,
    "server": server, "killed": killed, "memory": memory, "exec": exec_,
}  # fmt: skip

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in KINDS:
        sys.exit(__doc__)
    KINDS[sys.argv[1]]()
