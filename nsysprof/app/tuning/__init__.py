"""Choose what to tune for a program, and write what a tuning found: winners, policy and savings."""
