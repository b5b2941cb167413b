"""Record a program of the user's under nsys, alone or as ranks of a job."""
