"""cp.async and mbarrier: what arrives when, and who may look before; indirect calls, jump tables, grid.sync."""

from __future__ import annotations

import numpy as np
import pytest
from emulated import Out, ptx_kernel, run

from leap_jax.kernels.emulator.isa import UnsupportedOpcode
from leap_jax.kernels.emulator.machine import Fault, Limits, prepare
from leap_jax.kernels.emulator.ptx import parse

F32, I32, U32 = np.float32, np.int32, np.uint32
X = np.arange(256, dtype=F32) + 1


def copying(body: str, width: int = 16) -> str:
    """Each thread has %s, its place in tile[], and %x, %y, its places in global memory, `width` bytes each."""
    return ptx_kernel(
        ".param .u64 px, .param .u64 py",
        f""".reg .b32 %t, %s, %o, %n, %v<4>; .reg .b64 %x, %y; .reg .pred %p; .shared .align 16 .b8 tile[2048];
        .loc 1 1 0
        ld.param.u64 %x, [px]; ld.param.u64 %y, [py]; mov.u32 %t, %tid.x; mov.u32 %s, tile;
        mad.lo.u32 %o, %t, {width}, %s; mad.wide.u32 %x, %t, {width}, %x; mad.wide.u32 %y, %t, {width}, %y;
        xor.b32 %n, %t, 63; mad.lo.u32 %n, %n, {width}, %s;
        {body}
        ret;""",
    )


COPY = ".loc 1 2 0\ncp.async.cg.shared.global [%o], [%x], 16;"
WAIT = "cp.async.commit_group; cp.async.wait_group 0;"
SHOW = ".loc 1 5 0\nld.shared.v4.b32 {%v0, %v1, %v2, %v3}, [%n]; st.global.v4.b32 [%y], {%v0, %v1, %v2, %v3};"
REVERSED = X.reshape(64, 4)[::-1].ravel()


def show(body: str, block: int = 64, width: int = 16) -> np.ndarray:
    return run(copying(body, width), [X, Out(F32, 256)], block=block).outputs[0]


@pytest.mark.parametrize(
    "wait", [WAIT, "cp.async.wait_all;", "cp.async.commit_group; cp.async.commit_group; cp.async.wait_group 1;"]
)
def test_a_copy_arrives_after_the_wait_and_the_barrier(wait):
    np.testing.assert_array_equal(show(f"{COPY} {wait} bar.sync 0; {SHOW}"), REVERSED)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (f"{COPY} bar.sync 0; {SHOW}", "line 2 is still filling"),
        (f"{COPY} cp.async.commit_group; bar.sync 0; {SHOW}", "shared read of byte 1008 of shared array tile"),
        (f"{COPY} cp.async.commit_group; cp.async.wait_group 1; bar.sync 0; {SHOW}", "still filling"),
        (f"{COPY} cp.async.wait_group 0; bar.sync 0; {SHOW}", "still filling"),  # no commit before the wait
        (f"{COPY} .loc 1 5 0\nst.shared.b32 [%o], %t; {WAIT}", "shared write of byte 0"),
        (f"{COPY} {WAIT} {SHOW}", "no barrier between them"),
    ],
)
def test_a_look_before_the_wait_is_a_race(body, words):
    with pytest.raises(Fault) as caught:
        show(body)
    report = caught.value.report
    assert (report.kind, report.line) == ("race", 5)
    assert words in report.message, report


def test_two_stages_overlap():
    body = f"""{COPY} cp.async.commit_group; cp.async.cg.shared.global [%o+1024], [%x], 16; cp.async.commit_group;
    cp.async.wait_group 1; bar.sync 0; ld.shared.b32 %v0, [%n]; st.global.b32 [%y], %v0;
    cp.async.wait_group 0; bar.sync 0; ld.shared.b32 %v1, [%n+1024]; st.global.b32 [%y+4], %v1;"""
    out = show(body).reshape(64, 4)
    np.testing.assert_array_equal(out[:, 0], REVERSED[::4])
    np.testing.assert_array_equal(out[:, 1], REVERSED[::4])


def test_a_short_source_is_filled_with_zeros_and_no_source_is_not_looked_at():
    body = f"""and.b32 %v0, %t, 15; setp.eq.u32 %p, %v0, 0; @%p add.s64 %x, %x, 1048576;
    cp.async.cg.shared.global [%o], [%x], 16, %v0; {WAIT} bar.sync 0; {SHOW}"""
    raw = X.view(np.uint8).reshape(64, 16) * (np.arange(16) < (np.arange(64) % 16)[:, None]).astype(np.uint8)
    np.testing.assert_array_equal(show(body).view(np.uint8).reshape(64, 16), raw[::-1])


def test_copies_of_4_and_8_bytes():
    narrow = "cp.async.ca.shared.global [%o], [%x], 8; cp.async.wait_all; bar.sync 0;"
    out = show(f"{narrow} ld.shared.v2.b32 {{%v0, %v1}}, [%n]; st.global.v2.b32 [%y], {{%v0, %v1}};", width=8)
    np.testing.assert_array_equal(out[:128], X[:128].reshape(64, 2)[::-1].ravel())


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("cp.async.cg.shared.global [%o], [%x+4], 16;", "misaligned: misaligned global read of 16 bytes"),
        ("cp.async.cg.shared.global [%o+8], [%x], 16;", "misaligned: misaligned shared write"),
        ("cp.async.cg.shared.global [%o+1040], [%x], 16;", "memory_fault: invalid shared write of 16 bytes"),
        ("cp.async.ca.shared.global [%o], [%x+16], 8;", "memory_fault: invalid global read of 8 bytes"),
        ("mov.u32 %v0, 17; cp.async.cg.shared.global [%o], [%x], 16, %v0;", "reads 17 bytes of a copy of 16"),
    ],
)
def test_a_copy_keeps_to_its_arrays(body, fault):
    with pytest.raises(Fault, match=fault):
        show(body)


# mbarrier

BARRIER = ".shared .align 8 .b64 bar; .reg .b64 %state; .reg .b32 %b; mov.u32 %b, bar;"
INIT = ".loc 1 2 0\nsetp.eq.u32 %p, %t, 0; @%p mbarrier.init.shared.b64 [%b], 64; bar.sync 0;"
SPIN = """wait: mbarrier.test_wait.shared.b64 %p, [%b], %state; @!%p bra wait;"""
PUT = "st.shared.b32 [%o], %t;"
GET = ".loc 1 5 0\nld.shared.b32 %v0, [%n]; st.global.b32 [%y], %v0;"


@pytest.mark.parametrize(
    "wait",
    [
        SPIN,
        SPIN.replace("test_wait", "try_wait"),
        "wait: mbarrier.try_wait.parity.shared.b64 %p, [%b], 0; @!%p bra wait;",
    ],
)
def test_an_mbarrier_orders_writes_before_reads(wait):
    body = f"{BARRIER} {INIT} {PUT} mbarrier.arrive.shared::cta.b64 %state, [%b]; {wait} {GET}"
    out = show(body, width=4)
    np.testing.assert_array_equal(out[:64].view(U32), 63 - np.arange(64))


def test_the_phases_of_an_mbarrier_alternate():
    again, last = (SPIN.replace("wait:", f"{name}:").replace("bra wait", f"bra {name}") for name in ("again", "last"))
    body = f"""{BARRIER} {INIT} {PUT} mbarrier.arrive.shared.b64 %state, [%b]; {SPIN}
    ld.shared.b32 %v0, [%n]; mbarrier.arrive.shared.b64 %state, [%b]; {again}
    st.shared.b32 [%o], %v0; mbarrier.arrive.shared.b64 %state, [%b]; {last}
    {GET}"""
    np.testing.assert_array_equal(show(body, width=4)[:64].view(U32), np.arange(64))


def test_an_mbarrier_waits_for_the_copies_of_its_threads():
    body = f"""{BARRIER} {INIT} {COPY} cp.async.mbarrier.arrive.noinc.shared.b64 [%b];
    wait: mbarrier.try_wait.parity.shared.b64 %p, [%b], 0; @!%p bra wait; {SHOW}"""
    np.testing.assert_array_equal(show(body), REVERSED)


def test_transactions_keep_a_phase_open():
    body = f"""{BARRIER} setp.eq.u32 %p, %t, 0; @%p mbarrier.init.shared.b64 [%b], 1; bar.sync 0;
    mbarrier.arrive.expect_tx.shared.b64 %state, [%b], 64;
    mbarrier.test_wait.parity.shared.b64 %p, [%b], 0; selp.b32 %v0, 1, 0, %p;
    mbarrier.complete_tx.shared.b64 [%b], 64;
    mbarrier.test_wait.parity.shared.b64 %p, [%b], 0; selp.b32 %v1, 1, 0, %p;
    st.global.v2.b32 [%y], {{%v0, %v1}};"""
    assert show(body, block=1)[:2].view(U32).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (f"{INIT} {PUT} mbarrier.arrive.shared.b64 %state, [%b]; {GET}", "race: shared race on"),  # nobody waits
        (f"{INIT} mbarrier.arrive.shared.b64 %state, [%b], 65;", "barrier: more arrivals at an mbarrier than the 64"),
        ("mbarrier.arrive.shared.b64 %state, [%b];", "uninitialised: uninitialised shared read of 8 bytes"),
        (INIT.replace(", 64;", ", 0;"), "barrier: mbarrier.init with a count of 0"),
        (INIT.replace("bar.sync 0;", "mbarrier.arrive.shared.b64 %state, [%b];"), "race: shared race on byte 0"),
        (f"{INIT} add.u32 %b, %b, 8; mbarrier.arrive.shared.b64 %state, [%b];", "memory_fault: invalid shared atomic"),
    ],
)
def test_misuse_of_an_mbarrier_is_named(body, fault):
    with pytest.raises(Fault, match=fault.replace("(", r"\(")):
        show(f"{BARRIER} {body}", width=4)


def test_a_phase_that_never_ends_is_a_timeout_with_its_line():
    wait = f".loc 1 7 0\n{SPIN}"
    source = copying(f"{BARRIER} {INIT.replace(', 64;', ', 65;')} mbarrier.arrive.shared.b64 %state, [%b]; {wait}")
    with pytest.raises(Fault, match="timeout") as caught:
        run(source, [X, Out(F32, 256)], block=64, limits=Limits(5_000, 20.0))
    assert "line 7" in caught.value.report.message


# Calls through pointers, jump tables, vectors of atomics

FUNCTIONS = """
.func (.param .b32 r) twice(.param .b32 a) { .reg .b32 %x; ld.param.b32 %x, [a]; shl.b32 %x, %x, 1;
  st.param.b32 [r], %x; ret; }
.func (.param .b32 r) next(.param .b32 a) { .reg .b32 %x; ld.param.b32 %x, [a]; add.u32 %x, %x, 1;
  st.param.b32 [r], %x; ret; }
.func none() { ret; }
.global .align 8 .u64 table[3] = {twice, next, none};
"""
CALL = """.reg .b32 %t, %v; .reg .b64 %y, %f, %o; .reg .pred %p; ld.param.u64 %y, [py]; mov.u32 %t, %tid.x;
{choose}
{{ .param .b32 arg; .param .b32 ret; st.param.b32 [arg], %t;
proto: .callprototype (.param .b32 _) _ (.param .b32 _);
.loc 1 6 0
call (ret), %f, (arg), proto; ld.param.b32 %v, [ret]; }}
mul.wide.u32 %o, %t, 4; add.s64 %y, %y, %o; st.global.b32 [%y], %v; ret;"""
FROM_TABLE = """mov.u64 %f, table; rem.u32 %v, %t, 2; mul.wide.u32 %o, %v, 8; add.s64 %f, %f, %o;
ld.global.u64 %f, [%f];"""
BY_NAME = "mov.u64 %f, twice; setp.eq.u32 %p, %t, 3; @%p mov.u64 %f, next;"


@pytest.mark.parametrize(
    ("choose", "wanted"),
    [(FROM_TABLE, lambda t: t + 1 if t % 2 else 2 * t), (BY_NAME, lambda t: t + 1 if t == 3 else 2 * t)],
)
def test_indirect_calls(choose, wanted):
    source = ptx_kernel(".param .u64 py", CALL.format(choose=choose), FUNCTIONS)
    assert run(source, [Out(I32, 40)], block=40).outputs[0].tolist() == [wanted(t) for t in range(40)]


@pytest.mark.parametrize(
    ("choose", "words"),
    [
        ("mov.u64 %f, 0;", "null pointer is not a function of that type"),
        ("mov.u64 %f, none;", "is not a function of that type"),
        ("mov.u64 %f, kernel;", "is not a function of that type"),
        ("mov.u64 %f, %y;", "is not a function of that type"),
    ],
)
def test_a_call_of_what_is_no_such_function(choose, words):
    source = ptx_kernel(".param .u64 py", CALL.format(choose=choose), FUNCTIONS)
    with pytest.raises(Fault, match=words) as caught:
        run(source, [Out(I32, 40)])
    assert (caught.value.report.kind, caught.value.report.line) == ("memory_fault", 6)


def test_a_function_holds_no_data():
    source = ptx_kernel(".param .u64 py", ".reg .b64 %f; .reg .b32 %v; mov.u64 %f, twice; ld.b32 %v, [%f];", FUNCTIONS)
    with pytest.raises(Fault, match="is in no allocation"):
        run(source, [Out(I32, 1)])


def test_jump_tables_of_two_assembly_blocks_keep_their_own_labels():
    block = """{ .reg .b32 %i; and.b32 %i, %t, 1; ts: .branchtargets L0, L1; brx.idx %i, ts;
    L0: add.u32 %v, %v, FIRST; bra.uni D; L1: add.u32 %v, %v, SECOND; D: }"""
    body = f""".reg .b32 %t, %v; .reg .b64 %y, %o; ld.param.u64 %y, [py]; mov.u32 %t, %tid.x; mov.u32 %v, 0;
    {block.replace("FIRST", "1").replace("SECOND", "20")} {block.replace("FIRST", "300").replace("SECOND", "4000")}
    mul.wide.u32 %o, %t, 4; add.s64 %y, %y, %o; st.global.b32 [%y], %v; ret;"""
    out = run(ptx_kernel(".param .u64 py", body), [Out(I32, 8)], block=8).outputs[0]
    assert out.tolist() == [301, 4020] * 4


@pytest.mark.parametrize("result", [True, False])
def test_a_vector_atomic_adds_each_element(result):
    atom = "atom.global.add.v4.f32 {%a, %b, %c, %d}, [%y], {%f, %f, %f, %g};"
    if not result:
        atom = "red.global.add.v4.f32 [%y], {%f, %f, %f, %g};"
    body = f""".reg .b32 %t; .reg .f32 %a, %b, %c, %d, %f, %g; .reg .b64 %y, %z, %o; .reg .pred %p;
    ld.param.u64 %y, [py]; ld.param.u64 %z, [pz]; mov.u32 %t, %tid.x; setp.eq.u32 %p, %t, 0;
    mov.f32 %d, 0f00000000; @%p st.global.v4.f32 [%y], {{%d, %d, %d, %d}}; bar.sync 0;
    mov.f32 %f, 0f3F800000; cvt.rn.f32.u32 %g, %t; {atom} mul.wide.u32 %o, %t, 4; add.s64 %z, %z, %o;
    st.global.f32 [%z], %d; ret;"""
    total, seen = run(ptx_kernel(".param .u64 py, .param .u64 pz", body), [Out(F32, 4), Out(F32, 64)], block=64).outputs
    assert total.tolist() == [64, 64, 64, sum(range(64))]
    if result:
        assert seen.tolist() == [sum(range(t)) for t in range(64)]
    with pytest.raises(Fault, match="misaligned"):
        run(ptx_kernel(".param .u64 py, .param .u64 pz", body.replace("[%y], {%f", "[%y+4], {%f")), [Out(F32, 8)] * 2)


def test_the_blocks_of_a_grid_meet_in_its_workspace():
    """What cooperative groups compile grid.sync() to: block 0 adds the rest, all wait for the top bit to flip."""
    body = """.reg .b32 %t, %c, %n, %m, %old, %now; .reg .b64 %y, %w, %o, %z, %lo, %hi; .reg .pred %p;
    ld.param.u64 %y, [py]; ld.param.u64 %z, [pz]; mov.u32 %n, %envreg2; cvt.u64.u32 %lo, %n; mov.u32 %n, %envreg1;
    cvt.u64.u32 %hi, %n; bfi.b64 %w, %hi, %lo, 32, 32; mov.u32 %c, %ctaid.x; mov.u32 %n, %nctaid.x; mov.u32 %t, %tid.x;
    mul.wide.u32 %o, %c, 4; add.s64 %y, %y, %o; st.global.b32 [%y], %c; sub.s64 %y, %y, %o; bar.sync 0;
    setp.ne.u32 %p, %t, 0; @%p bra done; setp.eq.u32 %p, %c, 0; sub.u32 %m, -2147483647, %n; selp.b32 %m, %m, 1, %p;
    atom.add.release.gpu.u32 %old, [%w+4], %m;
    wait: ld.acquire.gpu.u32 %now, [%w+4]; xor.b32 %now, %now, %old; setp.gt.s32 %p, %now, -1; @%p bra wait;
    done: bar.sync 0; add.u32 %m, %c, 1; sub.u32 %n, %n, 1; sub.u32 %m, %n, %c;
    mul.wide.u32 %lo, %m, 4; add.s64 %y, %y, %lo; ld.global.b32 %m, [%y]; add.s64 %z, %z, %o; st.global.b32 [%z], %m;
    ret;"""
    source = ptx_kernel(".param .u64 py, .param .u64 pz", body)
    out = run(source, [Out(I32, 1200), Out(I32, 1200)], grid=1200, block=33).outputs[1]
    assert out.tolist() == list(range(1199, -1, -1))


@pytest.mark.parametrize(
    "text",
    [
        "wgmma.fence.sync.aligned;",
        "cp.async.bulk.commit_group;",
        "barrier.cluster.arrive.aligned;",
        "setmaxnreg.inc.sync.aligned.u32 240;",
        "mapa.shared::cluster.u32 %r, %r, 0;",
        "mbarrier.arrive.shared::cluster.b64 _, [%r];",
        "tex.2d.v4.f32.f32 {%r, %r, %r, %r}, [%q, {%r, %r}];",
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r], [%q, {%r, %r}], [%r];",
        "ld.shared::cluster.u32 %r, [%r];",
        "sust.b.2d.b32.trap [%q, {%r, %r}], {%r};",
    ],
)
def test_what_is_left_out_names_itself_and_its_line(text):
    source = ptx_kernel("", f".reg .b32 %r; .reg .b64 %q;\n.loc 1 12 0\n{text}")
    name = text.split()[0].rstrip(";")
    with pytest.raises(UnsupportedOpcode) as caught:
        prepare(parse(source))
    assert caught.value.instruction == f"{name} (line 12)"


ALL_PTX = [
    copying(f"{COPY} {WAIT} bar.sync 0; {SHOW}"),
    copying(f"{BARRIER} {INIT} {PUT} mbarrier.arrive.shared::cta.b64 %state, [%b]; {SPIN} {GET}", 4),
    *(ptx_kernel(".param .u64 py", CALL.format(choose=choose), FUNCTIONS) for choose in (FROM_TABLE, BY_NAME)),
    ptx_kernel(
        ".param .u64 px, .param .u32 n",
        """.reg .b32 %r<9>; .reg .f32 %f<5>; .reg .b16 %h<3>; .reg .f64 %d<3>; .reg .b64 %rd<5>; .reg .pred %p<4>;
        .shared .align 4 .b8 s[128]; .local .align 4 .b8 stack[16];
        ld.param.u64 %rd1, [px]; ld.param.u32 %r1, [n]; cvta.to.global.u64 %rd1, %rd1; mov.u32 %r2, %tid.x;
        mov.u32 %r7, 0;
        loop: and.b32 %r3, %r2, 31; mad.wide.u32 %rd2, %r3, 4, %rd1; ld.global.f32 %f1, [%rd2];
        fma.rn.f32 %f2, %f1, %f1, 0f3F800000; ex2.approx.ftz.f32 %f3, %f2; cvt.rn.f16.f32 %h1, %f3;
        cvt.f64.f32 %d1, %f3; add.cc.u32 %r4, %r3, -7; addc.u32 %r5, %r4, 0; prmt.b32 %r4, %r4, %r5, 0x5410;
        shfl.sync.bfly.b32 %r6|%p1, %r4, 3, 31, -1; vote.sync.ballot.b32 %r5, %p1, -1; bfe.u32 %r5, %r5, 3, 9;
        mov.u32 %r8, s; mad.lo.u32 %r8, %r3, 4, %r8; bar.sync 0; st.shared.b32 [%r8], %r5; bar.sync 0;
        atom.shared.add.u32 %r6, [%r8], 1; mov.u32 %r6, stack; st.local.u16 [%r6], %h1; ld.local.s16 %r6, [%r6];
        add.u32 %r7, %r7, 1; setp.lt.and.u32 %p2, %r7, %r1, %p1; @%p2 bra loop; @!%p2 bar.sync 1;
        setp.eq.u32 %p3, %r2, 3; @%p3 st.global.v2.f32 [%rd1], {%f1, %f3}; bar.red.popc.u32 %r3, 0, %p3; exit;""",
    ),
]
