"""Define the frozen result types that `analysis` produces and everything else uses."""
