"""Make traces that can be shared: rebuild them by an allow-list, then search the result for private content."""
