"""Turn any input of the user into one SQLite file: bundles, compressed traces, Parquet folders, Kineto's JSON."""
