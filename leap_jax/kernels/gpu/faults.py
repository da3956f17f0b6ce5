"""What an error of the driver means: the kernel's fault, the launch's, or the machine's.

Texts are those of cuGetErrorString, which PyCUDA puts after the name of the call; the class alone says less, since
an illegal address is a LogicError.
"""

from __future__ import annotations

from leap_jax.kernels.gpu.protocol import Failed

KERNEL_FAULTS = {
    "an illegal memory access was encountered": "memory_fault",
    "operation not supported on global/shared address space": "memory_fault",
    "misaligned address": "misaligned",
    "hardware stack error": "stack",
    "the launch timed out and was terminated": "timeout",
    "device-side assert triggered": "trap",
    "an illegal instruction was encountered": "trap",
    "invalid program counter": "trap",
    "unspecified launch failure": "trap",
}
LAUNCH_REFUSALS = ("too many resources requested for launch", "invalid argument")


def classify(error: Exception, kernel: str) -> Failed:
    """The failure that an error of the driver stands for; `kernel`: the one being launched or waited for, or ""."""
    text = " ".join(str(error).split())
    if type(error).__name__ == "MemoryError":
        return Failed("memory", text)
    if kernel:
        for said, kind in KERNEL_FAULTS.items():
            if said in text:
                return Failed(kind, said, kernel)
        if any(said in text for said in LAUNCH_REFUSALS):
            return Failed("launch", text.partition("failed: ")[2] or text, kernel)
    return Failed("driver", text, kernel)
