"""Check and complete what a request contains: inputs, grid, machine and limits."""
