"""`python -m leap_jax.kernels.compiler`: what it prints, and its exit statuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from leap_jax.kernels import compiler, compiler_command

GOOD = (
    "// launch: grid=(1) block=(256)\n"
    'extern "C" __global__ void kernel(float* y) {\n'
    "  __shared__ float s[64]; s[threadIdx.x] = y[threadIdx.x]; __syncthreads(); y[0] = s[63 - threadIdx.x]; }\n"
    'extern "C" __global__ void __launch_bounds__(128) bounded(float* y) { y[0] = 1; }\n'
)
BAD = 'extern "C" __global__ void kernel(float* y) {\n  y[0] =  foo;\n}\n'


@pytest.fixture(scope="module", autouse=True)
def _end_child():
    yield
    compiler.close()


@pytest.fixture
def run(tmp_path, capsys):
    def command(text: str, *flags: str) -> tuple[int, str, str]:
        path = tmp_path / "file.cu"
        path.write_text(text)
        status = compiler_command.main([str(path), *flags])
        return status, *capsys.readouterr()

    return command


def test_kernels_are_listed_with_their_needs(run):
    status, output, _ = run(GOOD, "--gpu=a100")
    assert status == 0
    kernel = next(line for line in output.splitlines() if line.strip().startswith("kernel ") and "256 B" in line)
    assert kernel.split()[1:] != []
    assert "A100" in output
    assert "100%" in output
    assert "bounded" in output


def test_json_holds_everything(run):
    status, output, _ = run(GOOD, "--json", "--shared=116000")
    report = json.loads(output)
    assert (status, report["ok"], report["gpu"]) == (0, True, "H100")
    kernel, bounded = report["kernels"]["kernel"], report["kernels"]["bounded"]
    assert (kernel["static_shared_bytes"], kernel["block"], bounded["block"]) == (256, 256, 128)
    assert kernel["registers"] > 0
    assert kernel["occupancy"] == {"blocks": 1, "warps": 8, "share": 0.125, "limiter": "shared memory"}
    assert report["compiler"].startswith("NVRTC")
    assert report["layers"]


def test_block_is_as_asked_and_may_not_fit(run):
    _, output, _ = run(GOOD, "--json", "--block=512")
    assert {kernel["block"] for kernel in json.loads(output)["kernels"].values()} == {512}
    assert "cannot launch" in run(GOOD, "--block=1056")[1]


@pytest.mark.parametrize(("gpu", "fits"), [("a100", False), ("h100", True)])
def test_limits_are_those_of_the_named_gpu(run, gpu, fits):
    output = run(GOOD, f"--gpu={gpu}", "--shared=200000")[1]
    assert ("cannot launch" in output) is not fits


@pytest.mark.parametrize("before", ["", "Some text.\n\n```cuda\n"])
def test_errors_show_the_line_of_the_file_and_a_caret(run, before):
    status, output, _ = run(before + BAD + ("```\n" if before else ""))
    line = before.count("\n") + 2
    assert status == 1
    assert output.splitlines() == [
        f'file.cu:{line}:11: error: identifier "foo" is undefined',
        f"    {line} |   y[0] =  foo;",
        "      |           ^",
    ]


def test_errors_in_json(run):
    status, output, _ = run(BAD, "--json")
    found = {"line": 2, "column": 11, "message": 'identifier "foo" is undefined'}
    assert (status, json.loads(output)) == (1, {"ok": False, "message": found["message"], "diagnostics": [found]})


def test_no_text_of_the_file_drives_the_terminal(run):
    _, output, _ = run("\x1b[2J[bold]foo[/bold];\n")
    assert "\x1b" not in output
    assert "[bold]foo[/bold];" in output


def test_response_without_code_is_an_error(run):
    status, output, _ = run("```cuda\nint x;\n")
    assert status == 1
    assert "file.cu: error: the code block is not closed" in output


@pytest.mark.parametrize("flags", [["--gpu=v100"], ["--block=x"], []])
def test_bad_usage(flags, tmp_path):
    path = tmp_path / "file.cu"
    if flags:
        path.write_text(GOOD)
    with pytest.raises(SystemExit) as stopped:
        compiler_command.main([str(path), *flags])
    assert stopped.value.code == 2


def test_no_compiler(run, monkeypatch):
    def unavailable(*_, **__):
        raise compiler.CompilerUnavailable("package nvidia-cuda-nvrtc is not installed")

    monkeypatch.setattr(compiler_command, "compile_source", unavailable)
    status, output, errors = run(GOOD)
    assert (status, output) == (3, "")
    assert "not installed" in errors
    assert json.loads(run(GOOD, "--json")[1])["ok"] is False


def test_missing_layer_is_said(run, monkeypatch):
    monkeypatch.setattr(compiler, "missing_layers", lambda: ("seccomp",))
    assert "NOT CONTAINED by seccomp" in run(GOOD)[2]
    assert run(GOOD, "--json")[2]


def test_launch_bounds_are_read_from_the_ptx():
    ptx = (
        ".visible .entry one(\n\t.param .u64 one_param_0\n)\n.maxntid 32, 4, 2\n.minnctapersm 2\n{\n"
        ".entry two()\n{\n.maxntid 7\n.entry three(\n)\n.reqntid 64\n{\n"
    )
    assert compiler_command.block_sizes(ptx) == {"one": 256, "two": None, "three": 64}


def test_as_a_module(tmp_path):
    (tmp_path / "file.cu").write_text(BAD)
    done = subprocess.run(
        [sys.executable, "-m", "leap_jax.kernels.compiler", str(tmp_path / "file.cu")],
        cwd=Path(compiler.__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert "file.cu:2:11: error" in done.stdout
