"""Many traces at once: each to a bounded, mergeable summary, merged as a tree, on this machine or on Dask."""
