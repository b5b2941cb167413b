"""The studies in analysis/: for each a template (NAME.md), and the module that fills it from the committed data."""
