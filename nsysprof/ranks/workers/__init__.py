"""Let other processes read traces: on this machine, or on a Dask cluster."""
