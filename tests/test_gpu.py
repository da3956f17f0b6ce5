"""Answers on a GPU: the same verdicts as on the emulator, times, and no fault of the machine taken for an answer's."""

from __future__ import annotations

import functools
import inspect
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hand_tasks import ROW_SUM, respond
from on_double import SETTINGS, SMALL_ADD, double

from leap_jax.kernels import verification
from leap_jax.kernels.emulator.isa import UnsupportedOpcode
from leap_jax.kernels.feedback import feedback
from leap_jax.kernels.gpu import choice, protocol, session, slots
from leap_jax.kernels.gpu.protocol import Facts
from leap_jax.kernels.gpu.slots import Gpu, GpuError
from leap_jax.kernels.pool import VerificationPool
from leap_jax.kernels.verdict import Outcome

__all__ = ["double"]  # a fixture


def add(body: str, before: str = "") -> str:
    """An answer to SMALL_ADD."""
    code = f"""{before}
extern "C" __global__ void kernel(const float* x, const float* y, float* z, int n) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  {body}
}}"""
    return respond("// launch: grid=(ceil_div(n, 256)) block=(256)", code)


RIGHT = "if (i < n) z[i] = x[i] + y[i];"
DEPENDS_ON_POISON = """if (i < n) {
    unsigned before = __float_as_uint(z[i]) & 255;
    z[i] = __uint_as_float(__float_as_uint(x[i] + y[i]) ^ before);
  }"""


def blind(monkeypatch):
    """An emulator that cannot run the answer, so that what the GPU alone says shows."""

    def prepare(module):
        raise UnsupportedOpcode(next(iter(module.entries.values())).instructions[0])

    monkeypatch.setattr(verification, "prepare", prepare)


def test_a_good_answer_is_correct_and_timed(double):
    double.set(clock_us={"kernel": 80.0, "nothing": 2.0})
    verdict = double.verify(SMALL_ADD.baseline)
    assert verdict.passed, verdict
    assert (verdict.stage, verdict.checks_passed) == ("done", verdict.checks_total)
    assert verdict.time_us == verdict.baseline_us == pytest.approx(80.0)
    assert (verdict.timing.device, verdict.timing.floor_us) == ("Double 0", pytest.approx(2.0))
    assert not verdict.timing.noisy and not verdict.timing.implausible
    assert "time 80.0 us, baseline 80.0 us." in feedback(SMALL_ADD, verdict, 400)


def test_several_kernels_shared_memory_and_scratch(double):
    task = replace(ROW_SUM, timing_shape={"rows": 4, "cols": 100})
    code = """// scratch: part float rows * 2
// launch: halves grid=(rows, 2) block=(32) shared=128 args=(x, part, rows, cols)
// launch: total grid=(1) block=(64) args=(part, y, rows)
extern "C" __global__ void halves(const float* x, float* part, int rows, int cols) {
  extern __shared__ float own[];
  float sum = 0;
  for (int c = 2 * threadIdx.x + blockIdx.y; c < cols; c += 64) sum += x[blockIdx.x * cols + c];
  own[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x) return;
  for (int i = 1; i < 32; ++i) sum += own[i];
  part[blockIdx.y * rows + blockIdx.x] = sum;
}
extern "C" __global__ void total(const float* part, float* y, int rows) {
  int r = threadIdx.x;
  if (r < rows) y[r] = part[r] + part[rows + r];
}"""
    double.set(clock_us={"halves": 30.0, "total": 5.0, "kernel": 70.0, "nothing": 2.0})
    verdict = double.verify(f"```cuda\n{code}\n```\n", task)
    assert verdict.passed, verdict
    assert (verdict.time_us, verdict.baseline_us) == (pytest.approx(35.0), pytest.approx(70.0))


@pytest.mark.parametrize(
    ("body", "outcome", "words"),
    [
        ("", Outcome.INCORRECT, "untouched"),
        ("if (i < n - 1) z[i] = x[i] + y[i];", Outcome.INCORRECT, "wrong, pattern"),
        ("if (i <= n) z[i] = x[i < n ? i : 0] + y[0] * 0;", Outcome.RUNTIME_ERROR, "line 5"),
        ("*(volatile float*)8 = 1;", Outcome.RUNTIME_ERROR, "line 5"),
        ("__trap();", Outcome.RUNTIME_ERROR, "trap instruction, line"),
        (f"{RIGHT} if (i < n) ((float*)x)[i] = 0;", Outcome.INCORRECT, "input x was modified"),
        (DEPENDS_ON_POISON, Outcome.RUNTIME_ERROR, "uninitialised"),
    ],
)
def test_a_failure_is_told_as_the_emulator_tells_it(double, body, outcome, words):
    verdict = double.verify(add(body))
    text = feedback(SMALL_ADD, verdict, 2000)
    assert verdict.outcome is outcome, text
    assert words in f"{text} {verdict.fault}"


@pytest.mark.parametrize(
    ("body", "outcome", "words"),
    [
        ("if (i <= n + 2) z[i] = x[i < n ? i : 0];", Outcome.RUNTIME_ERROR, "1 bytes past the end of z"),
        ("if (i < n) z[i] = x[i] + y[i]; if (i == 0) z[-2] = 7;", Outcome.RUNTIME_ERROR, "bytes before the start of z"),
        ("*(volatile float*)8 = 1;", Outcome.RUNTIME_ERROR, "an illegal memory access was encountered"),
        ("__trap();", Outcome.RUNTIME_ERROR, "unspecified launch failure"),
        (DEPENDS_ON_POISON, Outcome.INCORRECT, "differ between two runs"),
    ],
)
def test_the_gpu_alone_sees_it_too(double, monkeypatch, body, outcome, words):
    blind(monkeypatch)
    verdict = double.verify(add(body))
    text = feedback(SMALL_ADD, verdict, 2000)
    assert verdict.outcome is outcome, text
    assert words in text


def test_an_endless_kernel_is_a_timeout_and_the_gpu_is_free_again(double, monkeypatch):
    blind(monkeypatch)
    monkeypatch.setattr(session, "GRACE_SECONDS", 60.0)  # it is the worker's own deadline that counts
    double.set(instructions=300)
    verdict = double.verify(add("while (true) *(volatile float*)z = 1;"), run_seconds=3.0)
    assert (verdict.outcome, verdict.fault.kind) == (Outcome.RUNTIME_ERROR, "timeout")
    assert (verdict.fault.message, verdict.fault.kernel) == ("the time limit is over", "kernel")
    with slots.one_of(session.find_gpus(), 0.0):
        pass


def test_nothing_outlives_a_launch(double):
    body = """if (i < n) z[i] = calls[blockIdx.x] ? 0 : x[i] + y[i];
  __syncthreads();
  if (threadIdx.x == 0) calls[blockIdx.x] = 1;"""
    assert double.verify(add(body, "__device__ int calls[64];")).passed


def test_an_answer_that_is_right_only_where_it_is_not_timed_is_incorrect(double):
    verdict = double.verify(add("if (i < n) z[i] = n == 500 ? 0 : x[i] + y[i];"))
    assert (verdict.outcome, verdict.stage) == (Outcome.INCORRECT, "time")
    assert "z is 0 everywhere" in feedback(SMALL_ADD, verdict, 400)


def test_an_unsteady_clock_is_marked(double):
    double.set(jitter=0.1)
    verdict = double.verify(SMALL_ADD.baseline)
    assert verdict.passed and verdict.timing.noisy


def test_what_the_driver_refuses_to_launch_is_a_launch_error(double):
    double.set(faults={"cuLaunchKernel": ["LaunchError", "too many resources requested for launch"]})
    verdict = double.verify(SMALL_ADD.baseline)
    assert verdict.outcome is Outcome.LAUNCH_ERROR
    assert "kernel: too many resources" in verdict.message


CALLS = (
    *("cuInit", "cuDeviceGetCount", "cuDeviceGetAttribute", "cuCtxCreate", "cuCtxSetLimit", "cuMemGetInfo"),
    *("cuMemAlloc", "cuMemcpyHtoD", "cuModuleLoadDataEx", "cuModuleGetFunction", "cuLaunchKernel", "cuEventCreate"),
    *("cuEventRecord", "cuEventQuery", "cuMemcpyDtoH", "cuMemcpyDtoD", "cuMemsetD8", "cuEventElapsedTime"),
    "cuCtxGetDevice",
)


@pytest.mark.parametrize("call", CALLS)
def test_a_fault_of_the_machine_is_nobodys(double, monkeypatch, call):
    monkeypatch.setattr(session, "ATTEMPTS", 1)
    double.set(faults={call: ["LogicError", "uncorrectable ECC error encountered"]})
    with pytest.raises(GpuError, match="uncorrectable ECC error"):
        double.verify(SMALL_ADD.baseline)
    double.set()
    with slots.one_of(session.find_gpus(), 0.0):
        pass


@pytest.mark.parametrize("call", ["cuCtxCreate", "cuLaunchKernel", "cuMemcpyDtoH"])
def test_a_process_that_dies_is_replaced_once(double, call):
    double.set(faults={call: "die"})
    with pytest.raises(GpuError, match=r"died .exit status -9.; the process on the GPU died"):
        double.verify(SMALL_ADD.baseline)


def test_a_driver_that_does_not_come_back_is_killed(double, monkeypatch):
    double.set(faults={"cuMemcpyDtoH": "hang"})
    monkeypatch.setattr(session, "GRACE_SECONDS", 0.5)
    blind(monkeypatch)
    verdict = double.verify(SMALL_ADD.baseline, run_seconds=3.0)
    assert verdict.fault.kind == "timeout"
    assert "did not answer" in verdict.fault.message


def test_too_little_memory_is_nobodys_fault(double):
    double.set(faults={"cuMemAlloc": ["MemoryError", "out of memory"]})
    with pytest.raises(GpuError, match="Double 0: cuMemAlloc failed: out of memory; cuMemAlloc"):
        double.verify(SMALL_ADD.baseline)


def test_without_a_gpu_it_says_what_to_do(double):
    double.set(devices=0)
    with pytest.raises(GpuError, match=r"set kernels\.device=emulator"):
        double.verify(SMALL_ADD.baseline)


def test_visible_gpus_are_the_ones_used(double, monkeypatch):
    double.set(devices=3)
    assert [gpu.visible for gpu in session.find_gpus()] == ["0", "1", "2"]
    for visible, found in (("2,0", ["Double 2", "Double 0"]), ("", []), ("MIG-a/1, MIG-b/2", ["Double 1", "Double 2"])):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        session.find_gpus.cache_clear()
        assert [gpu.facts.name for gpu in session.find_gpus()] == found
    assert "MIG-b-2" in str(session.find_gpus()[1].lock_path)
    monkeypatch.setenv("KERNELS_VISIBLE_DEVICES", "1")
    session.find_gpus.cache_clear()
    assert [gpu.facts.name for gpu in session.find_gpus()] == ["Double 1"]


def test_auto_is_the_gpu_where_there_is_one(double, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    assert (choice.missing(), choice.resolve("auto"), choice.resolve("emulator")) == ("", "pycuda", "emulator")
    double.set(devices=0)
    assert "no NVIDIA GPU is visible" in choice.missing()
    assert (choice.resolve("auto"), choice.resolve("pycuda")) == ("emulator", "pycuda")
    double.set(faults={"cuInit": ["LogicError", "system has unsupported display driver"]})
    assert "cannot ask pycuda_double for GPUs: cuInit failed: system has unsupported" in choice.missing()
    monkeypatch.setattr(protocol, "DRIVER", "no_such_package.driver")
    assert "no_such_package is not installed" in choice.missing()


def test_a_pool_shares_the_gpus(double):
    double.set(devices=2)
    command = (sys.executable, str(Path(__file__).with_name("on_double.py")))
    answers = [SMALL_ADD.baseline, add(RIGHT), add("*(volatile float*)8 = 1;"), add("")]
    with VerificationPool(3, SETTINGS, 300.0, command=command) as pool:
        verdicts = [future.result() for future in [pool.submit("on_double:SMALL_ADD", a) for a in answers]]
    assert [v.outcome for v in verdicts] == [
        *(Outcome.CORRECT, Outcome.CORRECT),
        *(Outcome.RUNTIME_ERROR, Outcome.INCORRECT),
    ], verdicts
    assert {v.timing.device for v in verdicts[:2]} <= {"Double 0", "Double 1"}
    with slots.one_of(session.find_gpus()[:1], 0.0), slots.one_of(session.find_gpus()[1:], 0.0):
        pass


# Parameters as PyCUDA 2026.1 has them: py::arg and py::args of src/wrapper/wrap_cudadrv.cpp, and pycuda/driver.py.
# `...`: by position only.
SIGNATURES = {
    "init": "flags",
    "Device.make_context": "self flags",
    "Device.get_attribute": ...,
    "Context.set_limit": ...,
    "mem_alloc": ...,
    "mem_get_info": "",
    "memcpy_htod": "dest src",
    "memcpy_dtoh": "dest src",
    "memcpy_dtod": "dest src size",
    "memset_d8": "dest data size",
    "module_from_buffer": "buffer options message_handler",
    "Module.get_function": "self name",
    "Function.set_attribute": ...,
    "Function.prepare": "self arg_types texrefs",
    "Function.prepared_async_call": "self grid block stream args kwargs",
    "Event.__init__": "self flags",
    "Event.record": "self stream",
    "Event.query": "self",
    "Event.time_since": ...,
}


def test_the_double_takes_what_pycuda_takes(double):
    import pycuda_double

    for name, parameters in SIGNATURES.items():
        function = functools.reduce(getattr, name.split("."), pycuda_double)
        if parameters is not ...:
            assert " ".join(inspect.signature(function).parameters) == parameters, name
    errors = [
        pycuda_double.MemoryError,
        pycuda_double.LogicError,
        pycuda_double.LaunchError,
        pycuda_double.RuntimeError,
    ]
    assert all(issubclass(error, pycuda_double.Error) and not issubclass(error, OSError) for error in errors)
    with pytest.raises(TypeError, match="unknown keyword"):
        pycuda_double.Function(None, "f").prepare("").prepared_async_call((1, 1, 1), (1, 1, 1), None, shared=0)


def gpu(tmp_path, number: int, architecture: int = 90) -> Gpu:
    return Gpu(str(number), Facts(f"gpu {number}", architecture, f"{tmp_path.name}:{number}", 0, 0, 0, 0.0, 0, False))


def test_each_gpu_is_lent_to_one_at_a_time(tmp_path):
    two = [gpu(tmp_path, 0), gpu(tmp_path, 1)]
    with slots.one_of(two, 0.0) as (first, _), slots.one_of(two, 0.0) as (second, _):
        assert {first, second} == set(two)
        with pytest.raises(GpuError, match="no GPU was free within 0 s"), slots.one_of(two, 0.0):
            pass
    with slots.one_of(two, 0.0):
        pass


def test_a_gpu_stays_locked_until_the_last_process_on_it_is_gone(tmp_path):
    only = [gpu(tmp_path, 0)]
    with slots.one_of(only, 0.0) as (_, lock):
        stuck = subprocess.Popen([sys.executable, "-c", "input()"], pass_fds=(lock,), stdin=subprocess.PIPE)
    with pytest.raises(GpuError), slots.one_of(only, 0.0):
        pass
    stuck.communicate(b"\n")
    with slots.one_of(only, 0.0):
        pass


def test_gpus_of_another_architecture_are_left_alone(tmp_path):
    gpus = [gpu(tmp_path, 0), gpu(tmp_path, 1, architecture=80), gpu(tmp_path, 2)]
    assert slots.alike(gpus) == (gpus[0], gpus[2])
