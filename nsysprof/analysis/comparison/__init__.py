"""Compare a baseline with a candidate: latency, ranges, kernels, memory, findings and environments."""
