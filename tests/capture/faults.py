"""Backends that fail, for real: named as tests.capture.faults:NAME on the command line."""

import os
import signal
import time


def error(q, k, v, is_causal):
    raise ValueError("this kernel is wrong")


def crash(q, k, v, is_causal):
    os.kill(os.getpid(), signal.SIGSEGV)


def hang(q, k, v, is_causal):
    time.sleep(3600)


def out_of_memory(q, k, v, is_causal):
    return q.new_empty(1 << 60)


def slow(q, k, v, is_causal):
    time.sleep(0.5)
    return q
