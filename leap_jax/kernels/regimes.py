"""Regimes of input values: the families of numbers a check draws its inputs from."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from leap_jax.kernels.expressions import evaluate
from leap_jax.kernels.task import NUMPY_DTYPES, Param, Scalars

LARGEST = 1e4
SMALLEST = 1e-6
SUBNORMAL = 1e-40  # subnormal in f32


def regime_values(
    regime: str,
    shape: tuple[int, ...],
    dtype: str,
    rng: np.random.Generator,
    *,
    largest: float = LARGEST,
) -> np.ndarray:
    """Values of one regime: an array of `shape` and of the task dtype `dtype` ("f32", "i32", ...).

    regime     floats                                             integers
    signed     normal, standard deviation 2                       uniform in -100..100 (unsigned 0..200)
    wide       random sign, magnitude log-uniform in 1e-3..30     random sign, log-uniform over the whole type
    zero       all zero                                           all zero
    special    half signed; half out of +-0, +-1 (exact ties),    half signed; half out of 0, 1, 7 and the two
               +-1e-40 (subnormal), +-1e-6, +-largest             smallest and two largest values of the type

    `largest` bounds the special floats, for operations that add many of them up.
    Raises ValueError for an unknown regime.
    """
    numpy_dtype = NUMPY_DTYPES[dtype]
    if numpy_dtype.kind == "f":
        return _float_values(regime, shape, rng, largest).astype(numpy_dtype)
    return _integer_values(regime, shape, numpy_dtype, rng).astype(numpy_dtype)


def input_generator(
    params: Sequence[Param], *, largest: float = LARGEST
) -> Callable[[str, Scalars, np.random.Generator], dict[str, np.ndarray]]:
    """The usual `Task.inputs`: every `in` param drawn from the regime, in order, at its evaluated shape."""
    inputs = [param for param in params if param.role == "in"]

    def generate(regime: str, scalars: Scalars, rng: np.random.Generator) -> dict[str, np.ndarray]:
        shapes = {param.name: concrete_shape(param, scalars) for param in inputs}
        return {p.name: regime_values(regime, shapes[p.name], p.dtype, rng, largest=largest) for p in inputs}

    return generate


def concrete_shape(param: Param, scalars: Scalars) -> tuple[int, ...]:
    """The shape of a buffer at given scalars: one evaluated expression per axis."""
    sizes = {name: value for name, value in scalars.items() if isinstance(value, int)}
    return tuple(evaluate(axis, sizes) for axis in param.shape)


def _float_values(regime: str, shape: tuple[int, ...], rng: np.random.Generator, largest: float) -> np.ndarray:
    match regime:
        case "signed":
            return 2.0 * rng.standard_normal(shape)
        case "wide":
            magnitude = np.exp(rng.uniform(np.log(1e-3), np.log(30.0), shape))
            return rng.choice([-1.0, 1.0], shape) * magnitude
        case "zero":
            return np.zeros(shape)
        case "special":
            pool = np.array([0.0, 1.0, SUBNORMAL, SMALLEST, largest])
            picked = rng.choice(np.concatenate([pool, -pool]), shape)
            return np.where(rng.random(shape) < 0.5, 2.0 * rng.standard_normal(shape), picked)
    raise ValueError(f"unknown regime {regime!r}")


def _integer_values(regime: str, shape: tuple[int, ...], dtype: np.dtype, rng: np.random.Generator) -> np.ndarray:
    info = np.iinfo(dtype)
    low, high = (-100, 100) if info.min < 0 else (0, 200)
    match regime:
        case "signed":
            return rng.integers(low, high, shape, endpoint=True)
        case "wide":
            bits = rng.uniform(0.0, info.bits - (info.min < 0), shape)
            magnitude = np.minimum(np.exp2(bits), np.nextafter(float(info.max), 0.0)).astype(dtype)
            return np.where(rng.random(shape) < 0.5, magnitude, -magnitude) if info.min < 0 else magnitude
        case "zero":
            return np.zeros(shape, dtype)
        case "special":
            pool = np.array([0, 1, 7, info.min, info.min + 1, info.max - 1, info.max], dtype)
            ordinary = rng.integers(low, high, shape, endpoint=True).astype(dtype)
            return np.where(rng.random(shape) < 0.5, ordinary, rng.choice(pool, shape))
    raise ValueError(f"unknown regime {regime!r}")
