"""Find what could be changed, and what each change would save."""
