"""Fill the studies in analysis/: each has a template (NAME.md), and a module that fills it from the committed data."""
