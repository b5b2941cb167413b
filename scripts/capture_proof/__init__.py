"""Programs that count their own kernels, what traces hold of them, and losses that are planted."""
