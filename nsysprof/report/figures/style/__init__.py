"""Define what all figures share: colours, axes and where labels stand."""
