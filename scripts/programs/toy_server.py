#!/usr/bin/env python3
"""Serve requests with the process structure of vLLM and SGLang: API server, spawned engine, workers, detokenizer.

    scripts/programs/toy_server.py --port 8011 --workers 2          # the server
    scripts/programs/toy_server.py --port 8011 --load 30            # a client that asks it for 30 s

The API server is the first process and never touches the GPU. It spawns an engine, which batches what waits into steps;
the engine spawns the workers, which run each step, on CUDA as the replay of a CUDA graph of `2 * layers` kernels and
one kernel outside it, on the CPU as the same operators. A step is a range `step N` in each worker. When it ends, each
worker prints how many steps and kernels it has run (`worker 0: steps=120 kernels=2040`). Each answered request is a
line `request latency=3.141 ms`. Needs torch, and nvtx for the ranges.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import http.client
import http.server
import multiprocessing
import multiprocessing.connection
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator

TOKENS = 4  # steps that one request takes


def name_process(name: str) -> None:
    """Let tools see this name, as vLLM and SGLang do with setproctitle."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(15, name.encode(), 0, 0, 0)


@contextlib.contextmanager
def named_range(name: str) -> Iterator[None]:
    """Mark the block with an NVTX range on this thread."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.nvtx.range_push(name)
        try:
            yield
        finally:
            torch.cuda.nvtx.range_pop()
        return
    from nsysprof.workload.recording.nvtx_ranges import open_domain

    domain = open_domain()
    domain.push_range(domain.get_event_attributes(message=name))
    try:
        yield
    finally:
        domain.pop_range()


def make_step(layers: int, width: int) -> tuple[Callable[[], None], int]:
    """Return a function that runs one step to its end, and the number of kernels that it launches."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.ones(width, width, device=device)
    weights = [torch.full((width, width), 1e-3, device=device) for _ in range(layers)]
    sampled = torch.zeros(1, device=device)

    def model() -> None:
        for weight in weights:
            x.addcmul_(weight, weight)
            x.clamp_(max=2.0)

    if device == "cpu":

        def on_cpu() -> None:
            model()
            sampled.add_(1)

        return on_cpu, 2 * layers + 1
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        model()
        sampled.add_(1)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model()

    def on_gpu() -> None:
        graph.replay()
        sampled.add_(1)
        torch.cuda.synchronize()

    return on_gpu, 2 * layers + 1


def work(rank: int, pipe: multiprocessing.connection.Connection, layers: int, width: int) -> None:
    """Run steps when the engine says so."""
    name_process(f"toy::Worker{rank}")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    step, kernels = make_step(layers, width)
    pipe.send("ready")
    steps = 0
    while (number := pipe.recv()) is not None:
        with named_range(f"step {number}"):
            step()
        steps += 1
        pipe.send(number)
    print(f"worker {rank}: steps={steps} kernels={steps * kernels} per_step={kernels}", flush=True)


def run_engine(
    asked: multiprocessing.Queue[int | None],
    made: multiprocessing.Queue[list[int] | str | None],
    options: argparse.Namespace,
) -> None:
    """Put waiting requests into steps, and have every worker run each of them."""
    name_process("toy::Engine")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    context = multiprocessing.get_context(options.method)
    workers = []
    for rank in range(options.workers):
        ours, theirs = context.Pipe()
        context.Process(target=work, args=(rank, theirs, options.layers, options.width)).start()
        workers.append(ours)
    for pipe in workers:
        pipe.recv()
    made.put("ready")
    waiting: dict[int, int] = {}
    number, ends = 0, False
    while not ends or waiting:
        with contextlib.suppress(queue.Empty):
            while True:
                request = asked.get(block=not waiting and not ends)
                ends = ends or request is None
                if request is not None:
                    waiting[request] = TOKENS
        if not waiting:
            continue
        for pipe in workers:
            pipe.send(number)
        for pipe in workers:
            pipe.recv()
        number += 1
        waiting = {request: left - 1 for request, left in waiting.items()}
        done = [request for request, left in waiting.items() if left == 0]
        waiting = {request: left for request, left in waiting.items() if left}
        if done:
            made.put(done)
    for pipe in workers:
        pipe.send(None)
    made.put(None)
    for process in multiprocessing.active_children():
        process.join()


def detokenize(
    made: multiprocessing.Queue[list[int] | str | None], answers: multiprocessing.Queue[list[int] | str | None]
) -> None:
    """Pass answers on, as a process of its own that never uses the GPU."""
    name_process("toy::Detokenizer")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while (answer := made.get()) is not None:
        answers.put(answer)
    answers.put(None)


def serve(options: argparse.Namespace) -> int:
    context = multiprocessing.get_context(options.method)
    asked, made, answers = context.Queue(), context.Queue(), context.Queue()
    engine = context.Process(target=run_engine, args=(asked, made, options))
    detokenizer = context.Process(target=detokenize, args=(made, answers))
    engine.start()
    detokenizer.start()
    if answers.get() != "ready":
        return 1
    waiting: dict[int, threading.Event] = {}
    count = iter(range(1 << 62))

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            begun, request, event = time.perf_counter(), next(count), threading.Event()
            waiting[request] = event
            asked.put(request)
            event.wait(60)
            body = f"{request}\n".encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            # In one write, so that the lines of two threads do not mix.
            sys.stdout.write(f"request latency={1e3 * (time.perf_counter() - begun):.3f} ms\n")
            sys.stdout.flush()

        def log_message(self, *_arguments: object) -> None:
            pass

    def answer() -> None:
        while (done := answers.get()) is not None:
            for request in done:
                waiting.pop(request).set()

    def end(_number: int, _frame: object) -> None:
        threading.Thread(target=server.shutdown).start()

    server = http.server.ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=answer)
    thread.start()
    signal.signal(signal.SIGINT, end)
    signal.signal(signal.SIGTERM, end)
    print(f"ready on port {server.server_address[1]}", flush=True)
    server.serve_forever()
    asked.put(None)
    thread.join()
    engine.join()
    detokenizer.join()
    print("server: ended", flush=True)
    return 0


def load(options: argparse.Namespace) -> int:
    """Ask the server again and again from some threads, and print how many answers came."""
    until, answers = time.monotonic() + options.load, []

    def ask() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", options.port, timeout=60)
        while time.monotonic() < until:
            connection.request("GET", "/")
            answers.append(connection.getresponse().read())

    threads = [threading.Thread(target=ask) for _ in range(options.clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"client: {len(answers)} answers")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--method", choices=("spawn", "fork", "forkserver"), default="spawn")
    parser.add_argument("--load", type=float, default=0.0, help="be a client for so many seconds")
    parser.add_argument("--clients", type=int, default=2)
    options = parser.parse_args()
    return load(options) if options.load else serve(options)


if __name__ == "__main__":
    sys.exit(main())
