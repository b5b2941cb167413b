"""Record a user's program under nsys or torch's profiler, alone or as ranks of a job."""
