"""Read what torch.profiler and torch's allocator record, and write it as a trace with the tables of nsys."""
