"""Define findings, the causes of idle time, and the stack samples that give findings a line of code."""
