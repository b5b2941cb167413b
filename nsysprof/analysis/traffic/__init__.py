"""Compute bytes, operations and energy: DRAM traffic, hardware counters, collectives and the roofline."""
