"""What the verifier and the process on the GPU say to each other: plain data.

A message is (nonce, content); a reply carries the nonce of its request, which nothing that runs on the GPU can know.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

DRIVER = "pycuda.driver"


@dataclass(frozen=True)
class Launch:
    """formats: a struct letter for each argument; args: names of buffers, and numbers."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    formats: str
    args: tuple[str | int | float, ...]


@dataclass(frozen=True)
class Blank:
    """A buffer that kernels are to fill: `count` elements of a NumPy dtype, each holding `bits` until then."""

    name: str
    dtype: str
    count: int
    bits: int


@dataclass(frozen=True)
class Program:
    """A compiled answer and its launches at one shape. stateful: it has variables that outlive a launch."""

    cubin: bytes
    launches: tuple[Launch, ...]
    scratch: tuple[Blank, ...]
    stateful: bool


@dataclass(frozen=True)
class Describe:
    """Asks for the GPUs that CUDA_VISIBLE_DEVICES=`visible` (None: not set) shows -> tuple[Facts]."""

    visible: str | None


@dataclass(frozen=True)
class Open:
    """Takes the GPU that CUDA_VISIBLE_DEVICES=`visible` shows -> Facts. The handle of its lock follows."""

    visible: str


@dataclass(frozen=True)
class Run:
    """Runs a program once on fresh memory -> Ran. seed: of what lies around the buffers; seconds: from now on."""

    program: Program
    inputs: dict[str, np.ndarray]
    outputs: tuple[Blank, ...]
    seed: int
    seconds: float


@dataclass(frozen=True)
class Measure:
    """Times a program beside another on the same inputs -> Measured.

    nothing: cubin of an empty kernel `nothing`. ring: inputs of the samples in turn; `last` those of the final launch.
    checked: the samples whose outputs are wanted, as shares of all samples.
    """

    candidate: Program
    baseline: Program
    nothing: bytes
    ring: tuple[dict[str, np.ndarray], ...]
    last: dict[str, np.ndarray]
    outputs: tuple[Blank, ...]
    warm_ups: int
    checked: tuple[float, ...]
    seed: int
    seconds: float


@dataclass(frozen=True)
class Facts:
    """One GPU, as its driver describes it."""

    name: str
    architecture: int  # 90 for sm_90
    pci_bus_id: str
    total_bytes: int
    free_bytes: int  # 0 where it was not opened
    l2_bytes: int
    bytes_per_us: float  # of its memory, at most
    driver_version: int  # 13000 for CUDA 13.0
    reaches_host: bool  # kernels can follow pointers into ordinary host memory


@dataclass(frozen=True)
class Damage:
    """Bytes around a buffer that a kernel changed: the nearest, `distance` bytes outside."""

    buffer: str
    side: str  # before, after
    distance: int


@dataclass(frozen=True)
class Ran:
    """What a run left: flat outputs, SHA-256 of every input, and damage around the buffers."""

    outputs: dict[str, np.ndarray]
    digests: dict[str, bytes]
    damage: tuple[Damage, ...]


@dataclass(frozen=True)
class Measured:
    """Microseconds of every sample. checked: (index into the ring, outputs) of samples; final: the last launch."""

    candidate_us: tuple[float, ...]
    baseline_us: tuple[float, ...]
    nothing_us: tuple[float, ...]
    checked: tuple[tuple[int, dict[str, np.ndarray]], ...]
    final: dict[str, np.ndarray]
    digests: tuple[dict[str, bytes], ...]
    damage: tuple[Damage, ...]


@dataclass(frozen=True)
class Failed:
    """The GPU said no. kind: launch, memory (there is too little), driver, or the kind of a FaultReport."""

    kind: str
    message: str
    kernel: str = ""


Reply = tuple[Facts, ...] | Facts | Ran | Measured | Failed
