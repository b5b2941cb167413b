"""Evidence about attention backends and CUDA programs from Nsight Systems traces."""

__version__ = "0.1.0"

__all__ = ["__version__"]
