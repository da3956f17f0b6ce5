from __future__ import annotations

import time

import pytest

from leap_jax.kernels.compiler import compile_source
from leap_jax.kernels.escapes import escape, undefined_symbols
from leap_jax.kernels.verdict import Outcome

KERNEL = 'extern "C" __global__ void kernel(float* y) '
PLAIN = compile_source(KERNEL + "{ y[0] = 1; }")


def ptx(*assembly):
    blocks = "".join(f"\t// begin inline asm\n\t{text}\n\t// end inline asm\n" for text in assembly)
    return f".version 9.0\n.visible .entry kernel()\n{{\n{blocks}\tret;\n}}\n"


@pytest.mark.parametrize(
    ("assembly", "reason"),
    [
        ("ret; } .visible .entry other() { ret;", "closes the function"),
        ("}", "closes the function"),
        ("{", "leaves a brace open"),
        (".global .u32 stash;", "declares with .global"),
        ("here: .visible .func f();", "declares with .visible"),
        ("{ .reg .u32 r; .extern .func f; }", "declares with .extern"),
        ("mov.u32 %r1, 1; /* } */ .const .u32 c;", "declares with .const"),
        ("/* open", "leaves a comment or a string open"),
        ('.pragma "open', "leaves a comment or a string open"),
        ("// end inline asm\n.entry other() {\n// begin inline asm", "forges"),
        ("\t// end inline asm", "forges"),
        ("ret; // inline asm", "forges"),
    ],
)
def test_assembly_that_reaches_beyond_itself(assembly, reason):
    outcome, message = escape(ptx("mov.u32 %r1, 1;", assembly), PLAIN.cubin)
    assert outcome is Outcome.HACK
    assert message.startswith(f"inline assembly {reason}")


@pytest.mark.parametrize(
    "assembly",
    [
        "{ .reg .pred p; setp.eq.u32 p, %r1, 0; @p bra done; done: }",
        "{\n\t.param .b64 a;\n\tst.param.b64 [a], %rd1; // } sum {\n\t}",
        "ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1]; st.global.f32 [%rd2], %f1;",
        "/* .entry } */ .shared .u32 tile[32];",
        '.pragma "nounroll";',
        "",
    ],
)
def test_ordinary_assembly(assembly):
    assert escape(ptx(assembly, assembly), PLAIN.cubin) is None


@pytest.mark.parametrize(
    ("declaration", "reason"),
    [
        (".extern .func (.param .b64 result) malloc (.param .b64 size);", "device malloc"),
        (".extern .func free (.param .b64 pointer);", "device malloc"),
        (".extern .func /* why */ cudaLaunchDevice ();", "external function cudaLaunchDevice"),
        (".global .attribute(.managed) .u32 m;", "managed memory"),
    ],
)
def test_declarations_that_leave_the_program(declaration, reason):
    outcome, message = escape(f"{declaration}\n{ptx()}", PLAIN.cubin)
    assert outcome is Outcome.COMPILE_ERROR
    assert message.startswith(reason)


def test_what_printf_and_assert_need_is_allowed():
    compiled = compile_source("extern __shared__ float s[];\n" + KERNEL + '{ printf("%f", s[9]); assert(y[0] > 0); }')
    assert set(undefined_symbols(compiled.cubin)) == {"vprintf", "__assertfail"}
    assert escape(compiled.ptx, compiled.cubin) is None


def test_the_cubin_is_read_as_well_as_the_text():
    compiled = compile_source(KERNEL + "{ float* p = new float[2]; p[0] = y[1]; y[0] = p[(int)y[2]]; }")
    assert "malloc" in set(undefined_symbols(compiled.cubin))
    assert escape(PLAIN.ptx, compiled.cubin)[1].startswith("device malloc")
    assert set(undefined_symbols(PLAIN.cubin)) == set()


@pytest.mark.parametrize("piece", ["/", "/*", "//", '"', "{", "inline as", "x: ", "*/ ", ".extern .func (", "\t// "])
def test_long_assembly_takes_no_time(piece):
    start = time.process_time()
    escape(ptx(piece * 100_000), PLAIN.cubin)
    assert time.process_time() - start < 2
