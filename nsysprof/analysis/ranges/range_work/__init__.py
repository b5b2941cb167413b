"""Sum up the GPU work of ranges: launched, adopted and captured work, and work that cannot be known."""
