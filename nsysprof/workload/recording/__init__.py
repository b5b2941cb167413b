"""Mark measured calls with NVTX, and record with torch.profiler where nsys does not."""
