"""Draw figures: each module draws one or more files from one result."""
