"""Name the files with rows in an analysis folder of many traces."""

from __future__ import annotations

from nsysprof.results.column_registry.column import FILES

PER_RANK = FILES["ranks/per_rank.csv"]
RANK_RANGES = FILES["ranks/rank_ranges.csv"]
STRAGGLERS = FILES["ranks/stragglers.csv"]
JOB_FINDINGS = FILES["ranks/findings.csv"]
COMMUNICATION = FILES["ranks/communication.csv"]
RANGES_OVER_RANKS = FILES["ranks/ranges_over_ranks.csv"]
KERNELS_OVER_RANKS = FILES["ranks/kernels_over_ranks.csv"]
RANGE_KERNELS_OVER_RANKS = FILES["ranks/range_kernels_over_ranks.csv"]
API_OVER_RANKS = FILES["ranks/api_over_ranks.csv"]
MEMOPS_OVER_RANKS = FILES["ranks/memops_over_ranks.csv"]
RANK_ENERGY = FILES["ranks/rank_energy.csv"]
ENERGY_OVER_RANKS = FILES["ranks/energy_over_ranks.csv"]
