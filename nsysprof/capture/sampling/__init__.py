"""Take untraced samples in blocks: plan them, run them, and store them in samples.json. For capture, bench and tune."""
