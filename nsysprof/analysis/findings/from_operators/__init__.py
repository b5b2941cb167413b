"""What the operators of a trace, and their tensors, add to findings about busy time."""
