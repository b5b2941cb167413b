"""Name kernels for people: readable labels, categories, and variants of one name."""
