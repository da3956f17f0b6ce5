"""The PTX parser: declarations, scopes, operands, calls, source lines."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leap_jax.kernels.emulator import ir, ptx
from leap_jax.kernels.emulator.ir import Address, Immediate, Register, Special, Symbol, Vector
from leap_jax.kernels.emulator.ptx import PtxError

HEADER = ".version 9.5\n.target sm_90\n.address_size 64\n"


def module(text: str) -> ir.Module:
    return ptx.parse(HEADER + text)


def body(text: str) -> ir.Function:
    """The function whose body is `text`."""
    return module(f".visible .entry k(.param .u64 k_param_0) {{ {text} }}").functions["k"]


def only(text: str) -> ir.Instruction:
    (instruction,) = body(".reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>;" + text).instructions
    return instruction


# The forms below are NVRTC's own output, shortened.
SCALE = """
	// .globl	k
.visible .entry k(
	.param .u64 .ptr .global .align 4 k_param_0,
	.param .f32 k_param_1,
	.param .align 4 .b8 k_param_2[16]
)
.maxntid 256, 1, 1
.minnctapersm 2
{
	.reg .pred 	%p<2>;
	.reg .f32 	%f<3>;
	.reg .b64 	%rd<3>;
	.loc	1 7 0

	ld.param.u64 	%rd1, [k_param_0];
	setp.ltu.f32 	%p1, %f1, 0f3F800000;
	@%p1 bra 	$L__BB0_2;

	.loc	1 9 5
	ld.global.nc.v2.f32 	{%f1, %f2}, [%rd1+-8];
	@!%p1 mul.f32 	%f2, %f1, 0fBF000000;

$L__BB0_2:
	ret;

}

	.file	1 "k.cu"
"""


def test_an_entry():
    parsed = module(SCALE)
    assert parsed.target == "sm_90" and list(parsed.entries) == ["k"]
    kernel = parsed.functions["k"]
    assert [(p.name, p.space, p.size_bytes, p.alignment) for p in kernel.params] == [
        ("k_param_0", "param", 8, 8),
        ("k_param_1", "param", 4, 4),
        ("k_param_2", "param", 16, 4),
    ]
    assert kernel.directives == {"maxntid": (256, 1, 1), "minnctapersm": (2,)}
    assert kernel.registers == {
        **{"%p0": 1, "%p1": 1},
        **{f"%f{i}": 32 for i in range(3)},
        **{f"%rd{i}": 64 for i in range(3)},
    }
    load, compare, branch, vector, multiply, ret = kernel.instructions
    assert load.name == "ld.param.u64" and load.operands == (Register("%rd1"), Address(Symbol("k_param_0")))
    assert compare.operands == (Register("%p1"), Register("%f1"), Immediate(0x3F800000, "f32"))
    assert branch.operands == (Symbol("$L__BB0_2"),) and branch.guard == "%p1" and not branch.guard_negated
    assert vector.operands == (Vector((Register("%f1"), Register("%f2"))), Address(Register("%rd1"), -8))
    assert vector.modifiers == ("global", "nc", "v2", "f32")
    assert multiply.guard == "%p1" and multiply.guard_negated
    assert multiply.text == "@!%p1 mul.f32 %f2, %f1, 0fBF000000;"
    assert ret.operands == () and kernel.labels == {"$L__BB0_2": 5}
    assert [i.line for i in kernel.instructions] == [7, 7, 7, 9, 9, 9]


def test_module_variables_and_initialisers():
    parsed = module(
        """
.const .align 4 .b8 c[16] = {0, 0, 128, 63, 0x10};
.global .align 4 .u32 g = 7;
.global .align 8 .b8 z[400];
.global .align 8 .u64 gp = generic(g);
.global .align 8 .u64 table[3] = {first, g+4, generic(z)+8};
.global .f32 pi = 0f40490FDB;
.global .f64 half[2] = {0d3FE0000000000000, -0.25};
.global .u16 grid[2][2] = {{1, 2}, {3, -1}};
.global .align 16 .v4 .f32 quad;
.visible .global .b8 text[] = {65, 66};
.extern .shared .align 16 .b8 s[];
.shared .align 4 .f32 tile[16][17];
"""
    ).variables
    assert parsed["c"].space == "const" and parsed["c"].initial == bytes([0, 0, 128, 63, 16] + [0] * 11)
    assert parsed["g"].initial == (7).to_bytes(4, "little")
    assert (parsed["z"].size_bytes, parsed["z"].alignment, parsed["z"].initial) == (400, 8, b"")
    assert parsed["gp"].relocations == ((0, Symbol("g")),) and parsed["gp"].initial == bytes(8)
    assert parsed["table"].relocations == ((0, Symbol("first")), (8, Symbol("g", 4)), (16, Symbol("z", 8)))
    assert parsed["pi"].initial == struct.pack("<I", 0x40490FDB)
    assert parsed["half"].initial == struct.pack("<2d", 0.5, -0.25)
    assert parsed["grid"].initial == struct.pack("<4h", 1, 2, 3, -1)
    assert (parsed["quad"].size_bytes, parsed["quad"].alignment, parsed["quad"].element_bits) == (16, 16, 32)
    assert parsed["text"].size_bytes == 2
    assert (parsed["s"].size_bytes, parsed["s"].alignment) == (0, 16)
    assert parsed["tile"].size_bytes == 16 * 17 * 4 and parsed["tile"].space == "shared"


def test_variables_of_a_function():
    function = body(
        ".shared .align 8 .b8 _ZZ1kE1q[24]; .local .align 16 .b8 __local_depot0[32]; mov.u64 %rd, _ZZ1kE1q;"
    )
    assert [(v.name, v.space, v.size_bytes, v.alignment) for v in function.variables] == [
        ("_ZZ1kE1q", "shared", 24, 8),
        ("__local_depot0", "local", 32, 16),
    ]
    assert function.instructions[0].operands[1] == Symbol("_ZZ1kE1q")


def test_nested_scopes_rename_apart():
    function = body(
        """
	.reg .f32 	%f<4>, t;
	{ .reg .f32 t; add.f32 t, %f2, %f2; // comment
 mul.f32 %f1, t, 0f40000000; }
	{.reg.b32 f, t;{.reg.b16 f; mov.b16 f, 0X1F79U;} mov.b32 f, t;}
	mov.f32 %f1, t;
"""
    )
    names = [[operand.name for operand in i.operands if isinstance(operand, Register)] for i in function.instructions]
    assert names == [["t$1", "%f2", "%f2"], ["%f1", "t$1"], ["f$3"], ["f$2", "t$2"], ["%f1", "t"]]
    assert [function.registers[n] for n in ("t", "t$1", "f$2", "t$2", "f$3")] == [32, 32, 32, 32, 16]
    assert function.instructions[2].operands[1] == Immediate(0x1F79, "int")


def test_labels_of_a_scope_do_not_clash():
    text = "{ .reg .pred p; @p bra done; done: mov.u32 %r1, 1; bra done; bra out; }"
    function = body(f".reg .b32 %r<2>; {text} {text} out: ret;")
    targets = [i.operands[0].name for i in function.instructions if i.opcode == "bra"]
    assert targets == ["done$1", "done$1", "out", "done$2", "done$2", "out"]
    assert function.labels == {"done$1": 1, "done$2": 5, "out": 8}


def test_a_call():
    parsed = module(
        """
.extern .func  (.param .b32 func_retval0) vprintf
(
	.param .b64 vprintf_param_0,
	.param .b64 vprintf_param_1
)
;
.func  (.param .align 4 .b8 func_retval0[16]) mk(
	.param .align 4 .b8 mk_param_0[16]
)
{
	.reg .b32 %r<3>;
	.reg .b64 %rd<3>;
	st.param.f32 	[func_retval0+4], %r1;
	{ // callseq 2, 0
	.reg .b32 temp_param_reg;
	.param .b32 param0;
	st.param.f32 	[param0+0], %r1;
	.param .b32 retval0;
	call.uni (retval0),
	mk,
	(
	param0
	);
	ld.param.b32 	%r2, [retval0+0];
	} // callseq 2
	{
	.param .b32 param0;
	prototype_3 : .callprototype (.param .b32 _) _ (.param .b32 _);
	call (retval0), %rd1, (param0), prototype_3;
	}
	call leave;
	call leave, (%r1);
	ret;
}
"""
    )
    assert list(parsed.functions) == ["mk"] and not parsed.entries
    function = parsed.functions["mk"]
    assert [v.size_bytes for v in function.returns] == [16] and not function.is_entry
    assert [v.name for v in function.variables] == ["param0$1", "retval0$1", "param0$2"]
    assert function.instructions[0].operands[0] == Address(Symbol("func_retval0"), 4)
    assert function.instructions[1].operands[0] == Address(Symbol("param0$1"))
    calls = [i.operands for i in function.instructions if i.opcode == "call"]
    assert calls == [
        (Vector((Symbol("retval0$1"),)), Symbol("mk"), Vector((Symbol("param0$1"),))),
        (Vector((Symbol("retval0"),)), Register("%rd1"), Vector((Symbol("param0$2"),))),
        (Vector(()), Symbol("leave"), Vector(())),
        (Vector(()), Symbol("leave"), Vector((Register("%r1"),))),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mov.u32 %r1, -1;", Immediate(2**64 - 1, "int")),
        ("mov.u32 %r1, 0x80000000U;", Immediate(0x80000000, "int")),
        ("mov.u32 %r1, 017;", Immediate(15, "int")),
        ("mov.u32 %r1, 0b101;", Immediate(5, "int")),
        ("mov.u32 %r1, 0;", Immediate(0, "int")),
        ("mov.f32 %f1, 0f3f800000;", Immediate(0x3F800000, "f32")),
        ("mov.f32 %f1, -0f3f800000;", Immediate(0xBF800000, "f32")),
        ("mov.f64 %rd1, 0d3FF0000000000000;", Immediate(0x3FF0000000000000, "f64")),
        ("mov.f64 %rd1, -2.5;", Immediate(0xC004000000000000, "f64")),
        ("mov.f64 %rd1, 1e3;", Immediate(0x408F400000000000, "f64")),
        ("mov.f32 %f1, 0d3FF0000000000000;", Immediate(0x3F800000, "f32")),
        ("mov.f32 %f1, 0.5;", Immediate(0x3F000000, "f32")),
        ("mov.u32 %r1, WARP_SZ;", Immediate(32, "int")),
        ("mov.u32 %r1, %tid.x;", Special("tid.x")),
        ("mov.u64 %rd1, %clock64;", Special("clock64")),
        ("mov.u64 %rd1, k_param_0+4;", Symbol("k_param_0", 4)),
        ("mov.u64 %rd1, $str;", Symbol("$str")),
        ("ld.global.u32 %r1, [%rd1];", Address(Register("%rd1"))),
        ("ld.global.u32 %r1, [%rd1+16];", Address(Register("%rd1"), 16)),
        ("ld.global.u32 %r1, [%rd1+-16];", Address(Register("%rd1"), -16)),
        ("ld.global.u32 %r1, [%rd1-0x10];", Address(Register("%rd1"), -16)),
        ("ld.shared.u32 %r1, [tile+12];", Address(Symbol("tile"), 12)),
        ("ld.global.u32 %r1, [4096];", Address(None, 4096)),
        ("mov.b64 %rd1, {%r1, %r2};", Vector((Register("%r1"), Register("%r2")))),
        ("mov.b64 %rd1, {%r1, _};", Vector((Register("%r1"), None))),
    ],
)
def test_operands(text, expected):
    assert only(text).operands[1] == expected


def test_pairs_of_destinations():
    pair = Vector((Register("%p1"), Register("%p2")))
    assert only("setp.lt.s32 %p1|%p2, %r1, 5;").operands[0] == pair
    shuffle = only("shfl.sync.bfly.b32 %r7|%p1, %r3, 16, 31, -1;")
    assert shuffle.operands[0] == Vector((Register("%r7"), Register("%p1"))) and len(shuffle.operands) == 5
    assert only("setp.lt.s32 _|%p2, %r1, 5;").operands[0] == Vector((None, Register("%p2")))


def test_a_negated_source_becomes_a_register():
    function = body(".reg .pred %p<4>; .reg .b32 %r<4>; @%p2 vote.sync.ballot.b32 %r1, !%p1, %r2;")
    inverse, vote = function.instructions
    assert inverse.name == "not.pred" and inverse.operands == (Register("%p1$not"), Register("%p1"))
    assert inverse.guard is None and vote.guard == "%p2"
    assert vote.operands == (Register("%r1"), Register("%p1$not"), Register("%r2"))
    assert function.registers["%p1$not"] == 1


def test_odd_modifiers_and_spacing():
    assert only("ld.global.L2::128B.u32 %r1,[%rd1];").modifiers == ("global", "L2::128B", "u32")
    copy = only("cp.async.ca.shared.global [%r1], [%rd1], 16, %r2;")
    assert copy.modifiers == ("async", "ca", "shared", "global") and len(copy.operands) == 4
    assert only("bar.sync 0;").operands == (Immediate(0, "int"),)
    assert only("/* a */ add.s32\n%r1 , %r2\n, 3 ; // b\n").operands[2] == Immediate(3, "int")


def test_branch_targets():
    function = body(".reg .b32 %r<2>; ts: .branchtargets L0, L1; brx.idx %r1, ts; L0: ret; L1: ret;")
    assert function.branch_targets == {"ts": ("L0", "L1")} and function.labels == {"L0": 1, "L1": 2}


def test_lines_of_inlined_code():
    """Code of the user's own file keeps its line; code of a header gets the line it was called from."""
    kernel = module(
        """
.entry k() {
	.loc	1 12 3
	ret;
	.loc	1 4 1, function_name $L__info_string0, inlined_at 1 12 3
	ret;
	.loc	2 900 7, function_name $L__info_string1+16, inlined_at 1 13 3
	ret;
	.loc	2 100 7, function_name $L__info_string2, inlined_at 2 900 7
	ret;
	.loc	2 55 1
	ret;
}
	.file	1 "/a/k.cu"
	.file	2 "/a/cuda_fp16.hpp"
	.section	.debug_str
	{
$L__info_string0:
.b8 95,90,51
	}
"""
    ).functions["k"]
    assert [i.line for i in kernel.instructions] == [12, 4, 13, 13, 0]


def test_pragmas_and_debug_sections_are_skipped():
    assert len(body('.pragma "nounroll"; ret; .loc 1 2 3 ret;').instructions) == 2
    assert not module('.file 1 "k.cu"\n.section .debug_str { .b8 1, 2 .b32 7 }\n').functions


def test_a_definition_replaces_an_external_declaration():
    parsed = module(".extern .global .u32 g; .global .u32 g = 3; .extern .global .u32 g;")
    assert parsed.variables["g"].initial == (3).to_bytes(4, "little")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (".entry k() { add.s32 %r1, %r2 }", "expected ;"),
        (".entry k() { ret;", "end of text"),
        (".entry k() { ld.u32 %r1, [%tid.x]; }", "an address starts"),
        (".entry k() { @%p1 ret; }", "is not a register"),
        (".entry k() { L: ret; L: ret; }", "defined twice"),
        (".entry k() { .reg .v4 .f32 v; }", "vector registers"),
        (".entry k() { mov.u32 #; }", "unexpected character '#'"),
        (".entry k(.param .u64) { }", "expected name"),
        (".surprise x;", "unknown directive"),
        (".section .debug_str {", "found 'the end'"),
        (".entry k() { call; }", "without a function"),
        (".entry k() { call (x); }", "without a function"),
        (".entry k() { .reg .b32 %r<99999999>; }", "99999999 registers"),
        (".global .u32 x = 09;", "expected"),
        (".global .wobbly x;", "unknown type"),
    ],
)
def test_errors_say_where(text, message):
    with pytest.raises(PtxError, match="PTX line 4: ") as caught:
        module(text)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_deep_nesting_is_an_error():
    with pytest.raises(PtxError, match="nested too deeply"):
        body("{" * 5000)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(SCALE)), st.text('{}()[];,.@!%|+-0x9kr"/* \n', max_size=6))
def test_damaged_text_never_escapes_as_another_error(position, junk):
    damaged = SCALE[:position] + junk + SCALE[position + len(junk) :]
    try:
        ptx.parse(HEADER + damaged)
    except PtxError as error:
        assert str(error).startswith("PTX line ")
