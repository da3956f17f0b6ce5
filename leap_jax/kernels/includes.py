"""Which headers an answer may include, those served from memory, and the screen that holds it to them.

NVRTC opens any path that a source names, and quotes what it finds in its log. So `strip` first removes
comments and line splices, and `refusals` then looks at the very text that will be compiled: every `#include`,
in any spelling, must name an allowed header literally. It errs on the side of refusing (also inside raw strings),
so that no disagreement with the compiler about where a string or a comment ends can hide an include.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from leap_jax.kernels.verdict import DEVICE_CODE_ONLY, Diagnostic

PREAMBLE_NAME = "preamble.h"

# What nvcc gives every source and NVRTC does not. Spelled as in <cuda/std/...>, which defines most of it
# again; the floating-point constants must be usable in constexpr.
_PREAMBLE = """\
typedef signed char int8_t;
typedef signed short int16_t;
typedef signed int int32_t;
typedef signed long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef int64_t intptr_t;
typedef uint64_t uintptr_t;
#define INFINITY __builtin_bit_cast(float, 0x7f800000)
#define NAN __builtin_bit_cast(float, 0x7fffffff)
#define HUGE_VALF INFINITY
#define HUGE_VAL __builtin_bit_cast(double, 0x7ff0000000000000)
#define FLT_MAX 3.40282346638528859811704183484516925e+38f
#define FLT_MIN 1.17549435082228750796873653722224568e-38f
#define FLT_TRUE_MIN 1.40129846432481707092372958328991613e-45f
#define FLT_EPSILON 1.19209289550781250000000000000000000e-7f
#define FLT_DIG 6
#define FLT_MANT_DIG 24
#define DBL_MAX 1.79769313486231570814527423731704357e+308
#define DBL_MIN 2.22507385850720138309023271733240406e-308
#define DBL_EPSILON 2.22044604925031308084726333618164062e-16
#define DBL_DIG 15
#define DBL_MANT_DIG 53
#define CHAR_BIT 8
#define SCHAR_MIN (-128)
#define SCHAR_MAX 127
#define UCHAR_MAX 255
#define CHAR_MIN SCHAR_MIN
#define CHAR_MAX SCHAR_MAX
#define SHRT_MIN (-SHRT_MAX - 1)
#define SHRT_MAX 0x7fff
#define USHRT_MAX 0xffff
#define INT_MIN (-INT_MAX - 1)
#define INT_MAX 0x7fffffff
#define UINT_MAX 0xffffffff
#define LONG_MIN (-LONG_MAX - 1)
#define LONG_MAX LLONG_MAX
#define ULONG_MAX ULLONG_MAX
#define LLONG_MIN (-LLONG_MAX - 1)
#define LLONG_MAX 0x7fffffffffffffffLL
#define ULLONG_MAX 0xffffffffffffffffUL
#define INT8_MIN SCHAR_MIN
#define INT16_MIN SHRT_MIN
#define INT32_MIN INT_MIN
#define INT64_MIN LLONG_MIN
#define INT8_MAX SCHAR_MAX
#define INT16_MAX SHRT_MAX
#define INT32_MAX INT_MAX
#define INT64_MAX LLONG_MAX
#define UINT8_MAX UCHAR_MAX
#define UINT16_MAX USHRT_MAX
#define UINT32_MAX UINT_MAX
#define UINT64_MAX ULLONG_MAX
#define SIZE_MAX UINT64_MAX
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
"""

# NVRTC declares the functions of <math.h> and <cmath> globally, with overloads for float, but not in std.
_STD_FUNCTIONS = (
    "abs acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs "
    "fdim floor fma fmax fmin fmod frexp hypot ilogb isfinite isinf isnan ldexp lgamma log log10 log1p log2 logb "
    "lrint lround max min modf nearbyint nextafter pow remainder rint round signbit sin sinh sqrt tan tanh "
    "tgamma trunc"
)
_PREAMBLE += "namespace std {" + "".join(f"using ::{name};" for name in _STD_FUNCTIONS.split()) + "}\n"

# Everything these headers would declare is in the preamble or built in.
_EMPTY_HEADERS = (
    *("cuda.h", "cuda_runtime.h", "device_launch_parameters.h"),
    *("assert.h", "float.h", "limits.h", "math.h", "stddef.h", "stdint.h", "stdio.h", "stdlib.h", "string.h"),
    *("cassert", "cfloat", "climits", "cmath", "cstddef", "cstdint", "cstdio", "cstdlib", "cstring"),
)

# CUB names a few types of the runtime, which `--minimal` leaves out. All of its headers include this one first.
_CUB_CONFIG = """\
#pragma once
enum cudaError { cudaSuccess };
using cudaError_t = cudaError;
enum cudaDeviceAttr {};
enum cudaSharedMemConfig { cudaSharedMemBankSizeFourByte = 1, cudaSharedMemBankSizeEightByte };
using cudaStream_t = struct CUstream_st*;
#define cudaStreamLegacy ((cudaStream_t)1)
#define cudaStreamPerThread ((cudaStream_t)2)
#include <cccl/cub/config.cuh>
"""
_CUB_BLOCK = (
    *("adjacent_difference", "discontinuity", "exchange", "histogram", "load", "merge_sort", "radix_sort", "reduce"),
    *("run_length_decode", "scan", "shuffle", "store"),
)
_CUB_WARP = ("exchange", "load", "merge_sort", "reduce", "scan", "store")
_CUB_COMMON = ("block/block_load", "block/block_store", "block/block_reduce", "block/block_scan", "warp/warp_reduce")

# Headers served from memory: name -> text. NVRTC cannot take <cub/cub.cuh> whole; it stands for the usual part.
SHIMS = {
    PREAMBLE_NAME: _PREAMBLE,
    **dict.fromkeys(_EMPTY_HEADERS, "#pragma once\n"),
    "cub/config.cuh": _CUB_CONFIG,
    "cub/cub.cuh": "#pragma once\n" + "".join(f"#include <cub/{name}.cuh>\n" for name in _CUB_COMMON),
}

# Headers of the CUDA toolkit, read from its include folder.
TOOLKIT_HEADERS = (
    *("cuda_fp16.h", "cuda_bf16.h", "math_constants.h", "mma.h"),
    *("cooperative_groups.h", "cooperative_groups/reduce.h"),
)
CUB_HEADERS = (
    "cub/cub.cuh",
    *(f"cub/block/block_{name}.cuh" for name in _CUB_BLOCK),
    *(f"cub/warp/warp_{name}.cuh" for name in _CUB_WARP),
)

ALLOWED = frozenset((*_EMPTY_HEADERS, *TOOLKIT_HEADERS, *CUB_HEADERS))
# Short, so that feedback can quote it whole.
_ALLOWED_TEXT = "cuda_fp16.h, cuda_bf16.h, mma.h, cooperative_groups.h, cub, C headers"

_TOKEN = re.compile(
    r"""
      (?P<comment> //[^\n]* | /\*.*?(?:\*/|\Z) )
    | (?:u8|[uUL])?R"(?P<delimiter>[^\s()\\"]{0,16})\(.*?(?:\)(?P=delimiter)"|\Z)  # raw string
    | (?:u8|[uUL])?"(?:\\.|[^"\\\n])*"?
    | [uUL]?'(?:\\.|[^'\\\n])*'?
    | \.?[0-9](?:[eEpP][+-]|'?\w|\.)*  # number; an apostrophe may separate its digits
    | [^\W\d][\w$]*  # identifier, so that its last letters are not taken for a string prefix
    | .
    """,
    re.DOTALL | re.VERBOSE,
)
_SPLICE = re.compile(r"\\[^\S\n]*\n")
_DIRECTIVE = re.compile(
    r"""
      ^ (?:[^\n]*\*/)? [^\S\n]* (?:\#|%:|\?\?=) [^\S\n]*  # only a comment can make what stands before it blank
      (?: (?P<directive> include\w* | import | embed ) (?P<operand> [^\n]*) | (?P<line> line\b | [0-9] ) )
    | (?P<query> __has_(?:include|embed)\w* )
    """,
    re.MULTILINE | re.VERBOSE,
)
_HEADER_NAME = re.compile(r"""[^\S\n]* (?: <([^>]+)> | "([^"]+)" )""", re.VERBOSE)
_OUTSIDE = re.compile(r"^\s*[/~]|\.\.")
_QUOTE = re.compile(r"(?:u8|[uUL])?R?([\"'])")
_REFUSALS = 10


def strip(source: str) -> str:
    """Return `source` without byte order mark, comments, line splices and carriage returns; lines keep their numbers.

    A comment that is not closed stays, for `refusals` to see.
    """
    joined = _join_lines(source.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n"))
    return _join_lines(_TOKEN.sub(_blank_comment, joined))


def blank(source: str) -> str:
    """Return the code of `source` alone: `strip`ped, with string and character literals emptied."""
    return _TOKEN.sub(_blank_literal, strip(source))


def refusals(stripped: str) -> tuple[Diagnostic, ...]:
    """Return a diagnostic for each directive of a `strip`ped source that is not allowed, and for what is not closed."""
    directives = (
        Diagnostic(line=stripped.count("\n", 0, match.start()) + 1, column=0, message=message)
        for match in _DIRECTIVE.finditer(stripped)
        if (message := _refusal(match))
    )
    return tuple(itertools.islice(itertools.chain(directives, _unclosed(stripped)), _REFUSALS))


def leaves_toolkit(stripped: str) -> bool:
    """Whether a directive of a `strip`ped source names a file by an absolute path, a home or `..`."""
    names = (_HEADER_NAME.match(match["operand"]) for match in _DIRECTIVE.finditer(stripped) if match["directive"])
    return any(_OUTSIDE.search(name[1] or name[2]) for name in names if name)


def _refusal(match: re.Match[str]) -> str:
    if match["line"]:
        return "#line is not allowed"
    if match["query"]:
        return "__has_include is not allowed"
    if match["directive"] != "include":
        return f"#{match['directive'][:20]} is not allowed"
    name = _HEADER_NAME.match(match["operand"])
    if name and (name[1] or name[2]) in ALLOWED:
        return ""
    shown = f"<{(name[1] or name[2])[:60]}>" if name else "a computed name"
    return f"include of {shown} is not allowed; allowed: {_ALLOWED_TEXT}; {DEVICE_CODE_ONLY}"


def _blank_literal(match: re.Match[str]) -> str:
    quote = _QUOTE.match(match[0])
    return quote[1] * 2 if quote else match[0]


def _unclosed(stripped: str) -> Iterator[Diagnostic]:
    for match in _TOKEN.finditer(stripped):
        if match["comment"]:  # `strip` leaves no other
            message = "comment is not closed"
        elif match["delimiter"] is not None and not _closes_raw_string(match):
            message = "raw string is not closed"
        else:
            continue
        yield Diagnostic(line=stripped.count("\n", 0, match.start()) + 1, column=0, message=message)


def _closes_raw_string(match: re.Match[str]) -> bool:
    end = f'){match["delimiter"]}"'
    return match[0].endswith(end) and len(match[0]) >= match.end("delimiter") - match.start() + 1 + len(end)


def _join_lines(source: str) -> str:
    """Join spliced lines and add the line ends that this takes out after the next one that stays."""
    joined, pending = [], 0
    for line in _SPLICE.sub("\\\n", source).rstrip("\\").split("\n"):
        if line.endswith("\\"):
            joined.append(line.rstrip("\\"))  # all: one that stays could splice again once the next line is blank
            pending += 1
        else:
            joined.append(line + "\n" * pending + "\n")
            pending = 0
    return "".join(joined).removesuffix("\n")


def _blank_comment(match: re.Match[str]) -> str:
    """Turn a comment into spaces, its line ends into splices: it may stand inside a directive."""
    comment = match["comment"]
    if comment is None or (comment.startswith("/*") and not (len(comment) > 3 and comment.endswith("*/"))):
        return match[0]
    return re.sub(r"[^\n]", " ", match[0]).replace("\n", "\\\n")
