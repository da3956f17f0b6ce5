"""LEAP (arXiv 2608.01804): reinforcement learning that teaches language models to write CUDA kernels."""
