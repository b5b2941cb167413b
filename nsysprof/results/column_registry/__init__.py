"""List every column of every table file, and write and read the CSV files by this list."""
