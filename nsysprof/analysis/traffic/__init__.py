"""Compute bytes and operations: DRAM traffic, counters and the roofline."""
