"""Define frozen result types: what `analysis` produces and everything else consumes."""
