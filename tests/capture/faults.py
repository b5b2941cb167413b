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


def not_a_tensor(q, k, v, is_causal):
    return [q]


def wrong_shape(q, k, v, is_causal):
    return q[..., :1]


def wrong_dtype(q, k, v, is_causal):
    return q.double()


def without_gradient(q, k, v, is_causal):
    return q.detach().clone()


def exits(q, k, v, is_causal):
    raise SystemExit("this kernel gives up")


def speechless(q, k, v, is_causal):
    class SpeechlessError(Exception):
        def __str__(self):
            raise ValueError("no words")

    raise SpeechlessError


not_callable = 3


def slow(q, k, v, is_causal):
    time.sleep(0.5)
    return q
