"""Compare traces with programs that count their own kernels, and with planted losses."""
