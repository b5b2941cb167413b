"""Define what all figures share: colours, axes, dark variants, and where labels are placed."""
