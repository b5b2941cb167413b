"""Drive NVIDIA's programs: find, run and read nsys and ncu."""
