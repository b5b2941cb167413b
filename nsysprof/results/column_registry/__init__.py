"""List every column of every file of rows, and write and read the CSV files by this list."""
