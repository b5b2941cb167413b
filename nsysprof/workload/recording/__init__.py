"""Mark measured calls with NVTX ranges, and record with torch.profiler where nsys does not."""
