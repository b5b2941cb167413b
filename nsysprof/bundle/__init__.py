"""Traces that can be shared: rebuild by allow-list, then prove that nothing private came along."""
