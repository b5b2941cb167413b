"""Find out which backends torch takes for a call, and what each launches."""
