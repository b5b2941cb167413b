"""Turn what the user names into one SQLite file: bundles, packed traces, Parquet folders, Kineto's JSON."""
