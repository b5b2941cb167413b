"""Find out which backends torch accepts for a call, why it refuses others, and what each launches."""
