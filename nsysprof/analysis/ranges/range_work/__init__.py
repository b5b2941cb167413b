"""Sum up the GPU work of ranges: launched, adopted, captured, and what nobody can know."""
