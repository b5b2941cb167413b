"""Make the data and the lanes of the interactive timelines in report pages."""
