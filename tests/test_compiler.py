from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hand_tasks import ADD
from hypothesis import given, settings
from hypothesis import strategies as st

from leap_jax.kernels import compiler, compiler_child, compiler_log, includes, verification, worker
from leap_jax.kernels.compiler import CompileError, CompilerUnavailable, compile_source
from leap_jax.kernels.verdict import Diagnostic, KernelResources, Outcome

KERNEL = 'extern "C" __global__ void kernel(float* y) '
SCALE = KERNEL + "{ y[threadIdx.x] *= 2; }\n"
TEMPLATE_BOMB = (
    "template <int D, int P> struct B { static const long v = B<D - 1, 2 * P>::v + B<D - 1, 2 * P + 1>::v; };\n"
    "template <int P> struct B<0, P> { static const long v = P; };\n" + KERNEL + "{ y[0] = B<22, 1>::v; }\n"
)


@pytest.fixture(scope="module", autouse=True)
def _end_child():
    yield
    compiler.close()


@pytest.fixture(autouse=True)
def _forget():
    compiler._memory.clear()


_numbers = itertools.count()


def fresh(source=SCALE):
    """A source that was not compiled before."""
    return f"{source}__device__ int fresh_{next(_numbers)};\n"


def error(source, **options):
    with pytest.raises(CompileError) as caught:
        compile_source(source, **options)
    return caught.value


def child_pid():
    compiler.compiler_version()
    return compiler._child.process.pid


def wait_for_end(pid):
    for _ in range(500):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return
        except FileNotFoundError:
            return
        time.sleep(0.01)
    raise AssertionError(f"process {pid} still runs")


def test_plain_kernel_gives_ptx_cubin_and_resources():
    compiled = compile_source(SCALE)
    assert ".visible .entry kernel(" in compiled.ptx
    assert ".loc" in compiled.ptx
    assert compiled.cubin.startswith(b"\x7fELF")
    assert compiled.resources.keys() == {"kernel"}
    assert compiled.resources["kernel"].registers > 0
    assert compiler.compiler_version().startswith("NVRTC ")


def test_resources_are_reported_for_each_kernel():
    source = (
        "__device__ __noinline__ float pick(float* x) {\n"
        "  float s[100]; for (int i = 0; i < 100; i++) s[i] = x[i]; return s[(int)x[100]]; }\n"
        'extern "C" __global__ void stack(float* y) { y[0] = pick(y); }\n'
        'extern "C" __global__ void shared(float* y) {\n'
        "  __shared__ float s[64]; s[threadIdx.x] = y[threadIdx.x]; __syncthreads(); y[0] = s[63 - threadIdx.x]; }\n"
        'extern "C" __global__ void __launch_bounds__(1024, 2) spill(float* y) {\n'
        "  float a[64];\n  #pragma unroll\n  for (int i = 0; i < 64; i++) a[i] = y[i * 1024 + threadIdx.x];\n"
        "  __syncthreads();\n  #pragma unroll\n  for (int i = 0; i < 64; i++) y[i * 7] = a[63 - i] * a[i]; }\n"
    )
    resources = compile_source(source).resources
    assert resources.keys() == {"stack", "shared", "spill"}
    assert resources["stack"].stack_bytes == 400
    assert resources["shared"].static_shared_bytes == 256
    assert resources["spill"].registers == 32
    assert resources["spill"].spill_store_bytes > 0
    assert resources["spill"].spill_load_bytes > 0


def test_resource_log_cannot_be_forged_by_a_message():
    forged = "ptxas info    : 0 bytes gmem\\nptxas info    : Compiling entry function 'fake' for 'sm_90'\\n"
    assert compile_source(f'#pragma message "{forged}"\n{SCALE}').resources.keys() == {"kernel"}


def test_usual_types_macros_and_functions_exist_without_headers():
    source = (
        "constexpr float infinity = INFINITY;\n__constant__ float lowest = -FLT_MAX;\nusing std::max;\n"
        + KERNEL
        + "{\n"
        "  static_assert(sizeof(uint8_t) + sizeof(int16_t) + sizeof(uint32_t) + sizeof(int64_t) == 15);\n"
        "  static_assert(sizeof(size_t) == 8 && SIZE_MAX == UINT64_MAX && UINT_MAX == 0xffffffffu);\n"
        "  static_assert(INT_MIN == -2147483647 - 1 && INT_MAX == 2147483647 && CHAR_BIT == 8);\n"
        "  static_assert(INFINITY > FLT_MAX && FLT_MIN > 0 && 1 + FLT_EPSILON > 1 && DBL_MAX > FLT_MAX);\n"
        "  static_assert(NAN != NAN && (float)M_PI == 3.14159274f);\n"
        '  assert(y[0] > lowest);\n  printf("%f", y[0]);\n'
        "  y[1] = std::exp(y[0]) + std::max(y[1], 0.f) + max(1, 2) + std::abs(y[2]) + std::isnan(y[3]);\n}\n"
    )
    assert "kernel" in compile_source(source).resources


def test_every_allowed_header_compiles():
    # Those of cooperative_groups take seconds; together they show that none contradicts another or the preamble.
    source = "".join(f"#include <{name}>\n" for name in sorted(includes.ALLOWED, reverse=True))
    source += KERNEL + (
        "{\n  auto tile = cooperative_groups::tiled_partition<32>(cooperative_groups::this_thread_block());\n"
        "  float s = cooperative_groups::reduce(tile, y[threadIdx.x], cooperative_groups::plus<float>());\n"
        "  y[0] = s + __half2float(__float2half(s)) + __bfloat162float(__float2bfloat16(s)) + CUDART_INF_F;\n"
        "  nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> c;\n"
        "  nvcuda::wmma::fill_fragment(c, s);\n"
        "  nvcuda::wmma::store_matrix_sync(y, c, 16, nvcuda::wmma::mem_row_major);\n}\n"
    )
    compiled = compile_source(source, timeout_seconds=60)
    assert "kernel" in compiled.resources
    assert str(Path(compiler.__file__).parents[2]) not in compiled.ptx


def test_odd_but_good_sources():
    source = "// stream, #include <vector>, \u00fc \U0001f600\r\n/* #include <x>\r\n */\r\n" + SCALE
    assert "kernel" in compile_source(source).resources


def test_syntax_error_has_line_column_and_text():
    caught = error("\n" + KERNEL + "{\n  y[0] = /* why */ foo;\n}\n")
    assert caught.diagnostics == (Diagnostic(3, 20, 'identifier "foo" is undefined'),)
    assert str(caught) == 'line 3: identifier "foo" is undefined'


def test_assembler_errors_are_placed_by_the_line_table():
    caught = error(KERNEL + '{\n  y[1] = 2;\n\n  asm("foo %0;" : "=f"(y[0]));\n}\n')
    assert [diagnostic.line for diagnostic in caught.diagnostics] == [4]
    assert "'foo'" in caught.message


@pytest.mark.parametrize(
    ("source", "line", "text"),
    [
        (SCALE + "int main() { return 0; }\n", 2, "host functions are not allowed"),
        (SCALE + "void run(float* y) { kernel<<<1, 1>>>(y); }\n", 2, "host functions are not allowed"),
        (SCALE + "__device__ void run(float* y) { kernel<<<1, 1>>>(y); }\n", 2, "device-side kernel launch"),
        (SCALE + "__device__ void run() { std::vector<float> v; }\n", 2, 'namespace "std" has no member "vector"'),
        ("#include <vector>\n" + SCALE, 1, "include of <vector> is not allowed; allowed: "),
        (KERNEL + "{ y[0] = 1;\n", 0, 'expected a "}" at end of source'),
        ("__device__ float f(float);\n" + KERNEL + "{ y[0] = f(1); }", 0, "Unresolved extern function"),
        (
            KERNEL + "{ __shared__ float s[99999]; s[threadIdx.x] = y[0]; __syncthreads(); y[1] = s[9]; }",
            0,
            "too much shared data",
        ),
        (
            "template <int N> struct S { static const int v = S<N + 1>::v; };\n" + KERNEL + "{ y[0] = S<0>::v; }",
            1,
            "excessive recursion",
        ),
        ("int a;\0\n" + SCALE, None, "NUL"),
        ("//" + "x" * (64 << 10) + "\n" + SCALE, None, "larger than 64 KiB"),
    ],
)
def test_wrong_sources_say_why(source, line, text):
    caught = error(source)
    assert text in caught.message
    if line is not None:
        assert caught.diagnostics[0].line == line


def test_error_inside_a_header_is_reduced_to_its_cause():
    log = (
        '/cooperative_groups.h(11): error: static assertion failed with "Size"\n  static_assert(a, "Size");\n  ^\n'
        '          detected during instantiation of class "x" at line 3 of kernel.cu\n\n1 error detected\n'
    )
    assert compiler_log.diagnostics(log, "") == (Diagnostic(3, 0, "error inside a toolkit header"),)


def test_messages_are_bounded_printable_and_name_no_other_file():
    many = error("".join(f"x{i};\n" for i in range(5000)))
    assert len(many.diagnostics) == compiler_log.DIAGNOSTICS
    assert all(len(diagnostic.message) <= compiler_log.MESSAGE_LENGTH for diagnostic in many.diagnostics)
    long = error('static_assert(1 == 2, "' + "z" * 500 + "\\x1b[31m\u202e" + '");\n')
    assert long.message.isprintable()
    assert "passwd" not in str(error('static_assert(1 == 2, "x\\n/etc/passwd(1): error: root");\n').diagnostics)
    assert "RESULT" not in str(error('#line 7 "RESULT"\nfoo;\n').diagnostics)


@pytest.mark.parametrize(
    "directive",
    [
        '#include "{}"',
        "#include <{}>",
        '%:include "{}"',
        '#define X "{}"\n#include X',
        '#inc\\\nlude "{}"',
        '#/**/include "{}"',
    ],
)
@pytest.mark.parametrize("screened", [True, False])
def test_no_spelling_reads_a_host_file(directive, screened, monkeypatch, tmp_path):
    if not screened:  # what the sandbox is worth alone
        if not {"chroot", "landlock"} & set(compiler.sandbox_layers()):
            pytest.skip("this kernel grants neither chroot nor Landlock")
        monkeypatch.setattr(includes, "refusals", lambda stripped: ())
    secret = tmp_path / "secret.h"
    secret.write_text("the_secret_token;\n")
    for path in (secret, os.path.relpath(secret, "/"), "/etc/passwd", "/proc/self/environ"):
        caught = error(directive.format(path) + "\n" + SCALE)
        shown = f"{caught.message} {caught.diagnostics}"
        assert "the_secret_token" not in shown
        assert "root:" not in shown


def test_sandbox_answers_no_question_about_host_files(monkeypatch):
    if not {"chroot", "landlock"} & set(compiler.sandbox_layers()):
        pytest.skip("this kernel grants neither chroot nor Landlock")
    paste = "#define PASTE(a, b) a##b\n"  # not seen by the screen
    for path in ("/etc/passwd", sys.executable):
        query = f'#if PASTE(__has_, include)("{path}")\n#error found\n#endif\n'
        assert "kernel" in compile_source(paste + query + SCALE).resources


_FRAGMENTS = st.sampled_from(
    ['"', "'", "/*", "*/", "//", "\\\n", "\\ \n", 'R"(', ')"', "1'0", "#", "x", "\n", "\n#if 0\n", "\n#endif\n"]
) | st.sampled_from(['include "secret.h"', '\n#include "secret.h"\n', "\n%:include <secret.h>\n"])


@settings(max_examples=60, deadline=None)
@given(st.lists(_FRAGMENTS, max_size=20).map("".join))
def test_what_the_screen_passes_opens_no_file(source):
    stripped = includes.strip(source)
    if not includes.refusals(stripped):
        with compiler._lock:
            _, log, _, _ = compiler._running_child().compile(stripped.encode(), 20.0)
        assert "open source file" not in log


def test_environment_of_the_child_is_empty(monkeypatch):
    monkeypatch.setenv("LEAP_SECRET", "hunter2")
    compiler.close()
    try:
        assert Path(f"/proc/{child_pid()}/environ").read_bytes() == b""
    except PermissionError:
        pytest.skip("this user may not look")


def test_template_bomb_ends_at_the_deadline_and_the_next_compile_works():
    pid = child_pid()
    caught = error(TEMPLATE_BOMB, timeout_seconds=0.5)
    assert caught.message.startswith("compile time limit")
    wait_for_end(pid)
    assert "kernel" in compile_source(SCALE).resources


def test_output_bomb_is_refused():
    tower = '#define X0 "aaaaaaaa"\n' + "".join(f"#define X{i} {f'X{i - 1} ' * 8}\n" for i in range(1, 8))
    bomb = tower + "__device__ const char text[] = X6;\n" + KERNEL + "{ y[0] = text[(int)y[1]]; }\n"
    assert "too large" in error(bomb, timeout_seconds=60).message


def test_killed_child_is_replaced():
    pid = child_pid()
    os.kill(pid, signal.SIGKILL)
    assert "kernel" in compile_source(SCALE).resources
    assert child_pid() != pid


def kill_in_mid_compile(times):
    """Start a thread that kills the child while it compiles, `times` times; returns the pids it killed."""
    killed = []

    def kill():
        for _ in range(times):
            while (child := compiler._child) is None or child.process.pid in killed or not child.compiles:
                time.sleep(0.005)
            time.sleep(0.05)
            while Path(f"/proc/{child.process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "RD":
                time.sleep(0.001)  # until it is busy
            os.kill(child.process.pid, signal.SIGKILL)
            killed.append(child.process.pid)

    thread = threading.Thread(target=kill)
    thread.start()
    return killed, thread


SLOW = "#include <mma.h>\n" + SCALE  # some tenths of a second


def test_compile_whose_child_is_killed_is_retried_and_answered():
    compiler.close()
    killed, thread = kill_in_mid_compile(1)
    assert "kernel" in compile_source(SLOW, timeout_seconds=60).resources
    thread.join()
    assert len(killed) == 1
    assert child_pid() not in killed


def test_compile_whose_child_is_killed_again_and_again_is_nobodys_fault():
    compiler.close()
    killed, thread = kill_in_mid_compile(compiler.ATTEMPTS)
    with pytest.raises(CompilerUnavailable, match=r"died 2 times \(exit status -9, -9\)"):
        compile_source(SLOW, timeout_seconds=60)
    thread.join()
    assert len(killed) == compiler.ATTEMPTS
    assert "kernel" in compile_source(SLOW, timeout_seconds=60).resources  # not remembered


def test_the_compilers_death_is_an_infra_error_to_the_client(monkeypatch):
    def dead(source, **options):
        raise CompilerUnavailable("the compiler died 2 times")

    monkeypatch.setattr(verification, "compile_source", dead)
    limits = verification.Settings(
        device="emulator",
        compile_seconds=20.0,
        run_seconds=20.0,
        instructions_per_thread=1000,
        threads_per_check=1000,
        checks=2,
        seed=0,
    )
    verdict = worker.judge("hand_tasks:ADD", ADD.baseline, limits)
    assert verdict.outcome is Outcome.INFRA_ERROR
    assert "died 2 times" in verdict.message


def test_what_was_compiled_is_remembered(monkeypatch):
    good, bad = compile_source(SCALE), error(SCALE + "foo;\n")
    monkeypatch.setattr(compiler, "_request", None)
    assert compile_source(SCALE) == good
    assert error(SCALE + "foo;\n").diagnostics == bad.diagnostics
    with pytest.raises(TypeError):
        compile_source(fresh())


def test_late_compile_is_not_remembered(tmp_path):
    error(TEMPLATE_BOMB, timeout_seconds=0.3, cache_folder=tmp_path)
    assert not list(tmp_path.iterdir())
    start = time.monotonic()
    error(TEMPLATE_BOMB, timeout_seconds=0.8)
    assert time.monotonic() - start > 0.7


@pytest.mark.parametrize(
    ("status", "log", "final"),
    [
        (compiler_child.SUCCESS, "", True),
        (compiler_child.COMPILATION, "kernel.cu(1): error: x", True),
        (compiler_child.COMPILATION, "catastrophic error: out of memory", False),
        (compiler_child.OUT_OF_MEMORY, "", False),
        (compiler_child.INTERNAL_ERROR, "", False),
        (compiler_child.TOO_LARGE, "", False),
    ],
)
def test_only_what_lies_in_the_source_is_remembered(status, log, final, monkeypatch):
    replies = []
    monkeypatch.setattr(compiler, "_request", lambda *_: replies.append(1) or (status, log, "", b""))
    for _ in range(2):
        with contextlib.suppress(CompileError):
            compile_source(SCALE)
    assert len(replies) == (1 if final else 2)


def test_replies_are_kept_in_a_folder(tmp_path, monkeypatch):
    first = compile_source(SCALE, cache_folder=tmp_path)
    compiler._memory.clear()
    monkeypatch.setattr(compiler, "_request", None)
    assert compile_source(SCALE, cache_folder=tmp_path) == first


def test_another_compiler_header_or_option_is_another_key(monkeypatch):
    keys = {compiler._cache_key("x"), compiler._cache_key("x", 80)}
    monkeypatch.setattr(compiler, "_versions", lambda: ("nvrtc 14",))
    keys.add(compiler._cache_key("x"))
    monkeypatch.setattr(compiler_child, "OPTIONS", (*compiler_child.OPTIONS, "-G"))
    keys.add(compiler._cache_key("x"))
    monkeypatch.setitem(includes.SHIMS, "math.h", "changed")
    keys.add(compiler._cache_key("x"))
    assert len(keys) == 5


def test_child_is_recycled_when_it_has_grown(monkeypatch):
    pid = child_pid()
    assert 20 << 20 < compiler._child.resident_bytes() < compiler.CHILD_RESIDENT_BYTES
    compile_source(fresh())
    assert child_pid() == pid
    monkeypatch.setattr(compiler, "CHILD_RESIDENT_BYTES", 1 << 20)
    assert "kernel" in compile_source(fresh()).resources
    wait_for_end(pid)
    assert child_pid() != pid


def test_cpu_limit_ends_the_child():
    compiler.close()
    with compiler._lock:
        child = compiler._running_child()
        child.socket.sendall(compiler.REQUEST.pack(len(TEMPLATE_BOMB), 0.2, 90) + TEMPLATE_BOMB.encode())
        with pytest.raises(EOFError):
            child._receive(time.monotonic() + 60)
        assert compiler._end_child() == -signal.SIGPROF


def test_the_architecture_is_the_one_asked_for():
    default, ampere = compile_source(SCALE), compile_source(SCALE, architecture=80)
    assert ".target sm_90" in default.ptx and ".target sm_80" in ampere.ptx
    assert default.cubin != ampere.cubin
    assert compile_source(SCALE, architecture=90) == default
    with pytest.raises(compiler.CompilerUnavailable, match="sm_70"):
        compile_source(SCALE, architecture=70)


def test_interrupted_compile_does_not_answer_the_next_request(monkeypatch):
    compile_source(fresh())

    def interrupted(self, deadline):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(compiler._Child, "_receive", interrupted)
        with pytest.raises(KeyboardInterrupt):
            compile_source(SCALE)
    assert "other" in compile_source('extern "C" __global__ void other() {}').resources


@pytest.mark.parametrize(
    ("death", "expected"),
    [
        ("os.abort()", "crashed or ran out of memory"),
        ("os.kill(os.getpid(), signal.SIGPROF)", "compile time limit"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "died 2 times"),
        ("os._exit(0)", "died 2 times"),
    ],
)
def test_child_that_dies_of_every_request(monkeypatch, death, expected):
    compiler.close()
    fake = (
        'import os, signal, struct, sys; fd = int(sys.argv[2]); text = b\'{"version": [0, 0], "layers": []}\';'
        f"os.write(fd, struct.pack('<iIII', 0, len(text), 0, 0) + text); os.read(fd, 1); {death}"
    )
    with monkeypatch.context() as patch:
        patch.setattr(compiler, "_BOOT", fake)
        with pytest.raises(CompilerUnavailable if "died" in expected else CompileError, match=expected):
            compile_source(SCALE)
    assert "kernel" in compile_source(SCALE).resources


def test_compiler_that_does_not_start_is_unavailable(monkeypatch):
    compiler.close()
    with monkeypatch.context() as patch:
        patch.setattr(compiler, "_toolkit", lambda: ("/nowhere/libnvrtc.so", "/nowhere"))
        with pytest.raises(CompilerUnavailable, match="libnvrtc"):
            compile_source(SCALE)
        patch.setattr(compiler, "_BOOT", "raise SystemExit(3)")
        with pytest.raises(CompilerUnavailable, match="does not start"):
            compile_source(SCALE)
    assert "kernel" in compile_source(SCALE).resources


def test_child_is_recycled_and_leaves_nothing_behind(monkeypatch):
    monkeypatch.setattr(compiler, "COMPILES_PER_CHILD", 3)
    compiler.close()
    pids = []
    for _ in range(7):
        pids.append(child_pid())
        compile_source(fresh())
    assert [pids.index(pid) for pid in pids] == [0, 0, 0, 3, 3, 3, 6]
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids[:6])


def test_memory_of_the_child_stays_bounded():
    def resident_kib():
        status = Path(f"/proc/{child_pid()}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0])

    for _ in range(5):
        compile_source(fresh())
    before = resident_kib()
    for _ in range(45):
        compile_source(fresh())
    assert resident_kib() - before < 50 << 10


def test_warm_compiles_map_no_memory_anew():
    def page_faults():
        return int(Path(f"/proc/{child_pid()}/stat").read_text().rsplit(")", 1)[1].split()[7])

    for _ in range(3):
        compile_source(fresh())
    before = page_faults()
    for _ in range(10):
        compile_source(fresh())
    assert page_faults() - before < 10 * 300  # 1,500 each where malloc gives memory back


def test_child_outlives_the_thread_that_started_it_but_not_its_process():
    compiler.close()
    thread = threading.Thread(target=compile_source, args=(SCALE,))
    thread.start()
    thread.join()
    pid = compiler._child.process.pid
    compile_source(fresh())
    assert compiler._child.process.pid == pid

    program = (
        "import os, threading, time; from leap_jax.kernels import compiler; compiler.compiler_version();"
        f"threading.Thread(target=compiler.compile_source, args=({TEMPLATE_BOMB!r},), daemon=True).start();"
        "time.sleep(0.3); print(compiler._child.process.pid, flush=True); os._exit(0)"
    )
    root = Path(compiler.__file__).parents[2]
    printed = subprocess.run([sys.executable, "-c", program], cwd=root, stdout=subprocess.PIPE, check=True)
    wait_for_end(int(printed.stdout))


def test_concurrent_callers_get_their_own_answers():
    names = [f"kernel_{i}" for i in range(8)]
    results = {}

    def compile_one(name):
        results[name] = compile_source(f'extern "C" __global__ void {name}() {{}}').resources

    threads = [threading.Thread(target=compile_one, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {name: set(resources) for name, resources in results.items()} == {name: {name} for name in names}


def test_resources_of_a_log_without_stack_line():
    log = (
        "ptxas info    : 0 bytes gmem\nptxas info    : Compiling entry function 'k' for 'sm_90'\n"
        "ptxas info    : Function properties for k\n"
        "ptxas         .     8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads\n"
        "ptxas info    : Used 16 registers, used 1 barriers, 16 bytes smem\n"
    )
    assert compiler_log.resources(log) == {"k": KernelResources(16, 16, 8, 4, 12)}
