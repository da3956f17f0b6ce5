"""The state of a GPU's clock, from NVML: what can spoil a timing. No CUDA, so any process may ask."""

from __future__ import annotations

from leap_jax.kernels.gpu.timing import Health

# Bits of nvmlClocksEventReasons that mean less than the clock asked for; idle and application clocks do not.
_REASONS = {0x8: "hardware slowdown", 0x20: "hot", 0x40: "hot (hardware)", 0x80: "power brake"}


def read(pci_bus_id: str) -> Health | None:
    """The state now; None where NVML is not installed or does not know."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id.encode())
        bits = pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
        return Health(
            clock_mhz=pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM),
            temperature_c=pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU),
            reasons=tuple(reason for bit, reason in _REASONS.items() if bits & bit),
        )
    except pynvml.NVMLError:
        return None
