"""Find which ranks the others wait for in collectives, on one clock, and what that costs."""
