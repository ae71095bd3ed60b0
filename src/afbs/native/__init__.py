"""The native kernels: C functions for small networks, opened with ctypes. Nothing here needs torch."""
