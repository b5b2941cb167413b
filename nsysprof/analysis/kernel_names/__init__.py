"""Give kernels names for people: readable labels, categories, and one name for variants of a kernel."""
