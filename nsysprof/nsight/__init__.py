"""Drive NVIDIA's programs nsys and ncu: find them, run them, and read what they print."""
