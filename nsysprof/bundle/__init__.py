"""Make traces that can be shared: rebuild them by an allow-list, then prove that nothing private came along."""
