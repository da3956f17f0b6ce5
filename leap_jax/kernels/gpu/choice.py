"""Which device `auto` stands for on this host, and why not the GPU."""

from __future__ import annotations

import importlib.util

from leap_jax.kernels.gpu import protocol
from leap_jax.kernels.gpu.session import find_gpus
from leap_jax.kernels.gpu.slots import GpuError


def missing() -> str:
    """What is missing to run kernels on a GPU here, one line; nothing: "". Asks the driver once a process."""
    package = protocol.DRIVER.partition(".")[0]
    if importlib.util.find_spec(package) is None:
        return f"{package} is not installed (launch.sh installs it where it finds an NVIDIA GPU)"
    try:
        return "" if find_gpus() else "no NVIDIA GPU is visible (CUDA_VISIBLE_DEVICES)"
    except GpuError as error:
        return str(error)


def resolve(device: str) -> str:
    """`pycuda` or `emulator` for `auto`; any other name unchanged."""
    if device != "auto":
        return device
    return "emulator" if missing() else "pycuda"
