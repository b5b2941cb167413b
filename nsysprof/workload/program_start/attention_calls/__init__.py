"""Turn each attention call of a program into a range, and count the calls. The program imports this by its path."""
