"""Take untraced samples: the blocks of a capture, bench or tune, planned, run and kept in samples.json."""
