"""Write what a tuning found: the winners and the policy."""
