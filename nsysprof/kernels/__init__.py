"""Know kernels by their names: what they do, on which unit of the GPU, and to which attention backend they belong."""
