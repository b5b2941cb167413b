"""Check and complete what a request names: inputs, grid, machine and limits."""
