"""Read Kineto events of torch.profiler, and write them as a trace with the tables of nsys."""
