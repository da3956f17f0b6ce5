"""Kernels on the host's NVIDIA GPU, through PyCUDA in a process of its own."""
