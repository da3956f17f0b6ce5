"""Tasks of the kernel corpus that the suite does not have."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from leap_jax.kernels.regimes import input_generator
from leap_jax.kernels.task import Param, Task


def _task(name: str, parameters: str, reference: Callable, shapes: list[Mapping[str, int]], **options) -> Task:
    """`parameters`: "x f32 in rows cols, y f32 out rows, rows i32"; two shapes are public, the rest hidden."""
    params = []
    for words in (text.split() for text in parameters.split(", ")):
        kind = (words[2], tuple(words[3:])) if len(words) > 2 else ("scalar", ())
        params.append(Param(words[0], words[1], *kind))
    return Task(
        name=name,
        family="corpus",
        level=1,
        text=name,
        params=tuple(params),
        reference=lambda xp, **values: reference(**values),
        inputs=input_generator(params, largest=100.0),
        public_shapes=tuple(shapes[:2]),
        hidden_shapes=tuple(shapes[2:]),
        timing_shape=shapes[0],
        baseline="",
        min_bytes="0",
        min_ops="0",
        **options,
    )


def _stencil(x: np.ndarray, rows: int, cols: int) -> np.ndarray:
    wide = np.pad(x, 1)
    return (4 * x + wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:]) / 8


def _convolution(x: np.ndarray, w: np.ndarray, rows: int, cols: int, taps: int) -> np.ndarray:
    windows = np.lib.stride_tricks.sliding_window_view(x, (taps, taps))
    return np.einsum("rcij,ij->rc", windows, w)


def _totals(x: np.ndarray, n: int) -> np.ndarray:
    folds = (np.add, np.minimum, np.maximum, np.bitwise_and, np.bitwise_or, np.bitwise_xor)
    return np.array([fold.reduce(x, dtype=np.uint32) for fold in folds], np.uint32)


def _matmul(a: np.ndarray, b: np.ndarray, m: int, n: int, k: int) -> np.ndarray:
    return a @ b


_GRIDS = [{"rows": 5, "cols": 37}, {"rows": 17, "cols": 33}, {"rows": 1, "cols": 70}, {"rows": 40, "cols": 1}]
_PRODUCTS = [{"m": 17, "n": 33, "k": 30}, {"m": 16, "n": 16, "k": 32}, {"m": 1, "n": 5, "k": 7}]
TASKS = {
    task.name: task
    for task in (
        _task(
            "row_sort",
            "x i32 in rows cols, y i32 out rows cols, rows i32, cols i32",
            lambda x, rows, cols: np.sort(x, axis=1),
            [{"rows": 3, "cols": 100}, {"rows": 2, "cols": 256}, {"rows": 4, "cols": 1}],
        ),
        _task("stencil_2d", "x f32 in rows cols, y f32 out rows cols, rows i32, cols i32", _stencil, _GRIDS),
        _task(
            "conv_2d",
            "x f32 in rows cols, w f32 in taps taps, y f32 out rows-taps+1 cols-taps+1, rows i32, cols i32, taps i32",
            _convolution,
            [
                {"rows": 9, "cols": 37, "taps": 3},
                {"rows": 20, "cols": 16, "taps": 5},
                {"rows": 7, "cols": 7, "taps": 7},
            ],
            atol=5e-2,
        ),
        _task(
            "int8_matmul",
            "a i32 in m k, b i32 in k n, c i32 out m n, m i32, n i32, k i32",
            _matmul,
            _PRODUCTS,
            regimes=("signed", "zero"),
        ),
        _task(
            "double_matmul",
            "a f64 in m k, b f64 in k n, c f64 out m n, m i32, n i32, k i32",
            _matmul,
            _PRODUCTS,
            rtol=1e-12,
            atol=1e-9,
        ),
        _task("bit_totals", "x u32 in n, y u32 out 6, n i32", _totals, [{"n": 300}, {"n": 1000}, {"n": 1}]),
    )
}
