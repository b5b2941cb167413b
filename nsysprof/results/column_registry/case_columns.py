"""Name the files with a row per case or shape: of capture, bench and tune, and of ncu's counters."""

from __future__ import annotations

from nsysprof.results.column_registry.column import FILES

CAPTURE_RESULTS = FILES["capture/results.csv"]
BENCH_RESULTS = FILES["bench/results.csv"]
WINNERS = FILES["tune/winners.csv"]
COUNTERS = FILES["capture/counters.csv"]
