#!/usr/bin/env bash
# Set up .venv from requirements.txt (again only when that file changes), then train, or run the tests.
#   ./launch.sh [--workdir=runs/a] [--config=experiments/grpo.py] [--config.seed=1] ...
#   ./launch.sh test [pytest arguments]
#   ./launch.sh doctor                   is this machine ready, and if not, what to do
#   ./launch.sh gpu-test                 what only a GPU can show; writes gpu-results.json
# On a host with NVIDIA GPUs it also installs pycuda and JAX for CUDA: see README, "GPUs".
set -euo pipefail
cd "$(dirname "$0")"

die() { echo "launch.sh: $*" >&2; exit 1; }

pip() { .venv/bin/python -m pip --quiet --disable-pip-version-check "$@"; }

# The requirements that pyproject.toml lists under a name, one a line.
extra() {
  .venv/bin/python -c 'import sys, tomllib
print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"][sys.argv[1]], sep="\n")' "$1"
}

# JAX for the driver's CUDA, and PyCUDA, which is built here against the headers of the toolkit's wheels. Whatever does
# not install is said and done without: the policy then trains on the CPU, the kernels run on the emulator.
install_for_gpu() {
  local cuda home status=0
  cuda=$(nvidia-smi | sed -n 's/.*CUDA Version: *\([0-9]*\).*/\1/p')
  echo "launch.sh: $(nvidia-smi -L | wc -l) NVIDIA GPU(s), driver for CUDA ${cuda:-?}: installing JAX for it and pycuda (minutes)" >&2
  case $cuda in
    12 | 13) extra "cuda$cuda" | pip install -r requirements.txt -r /dev/stdin ||
      echo "launch.sh: JAX for CUDA $cuda did not install; the policy will train on the CPU" >&2 ;;
    *) echo "launch.sh: JAX needs a driver for CUDA 12 or 13; the policy will train on the CPU" >&2 ;;
  esac
  home=$(mktemp -d)
  .venv/bin/python -c 'import glob, sysconfig
print("CUDA_INC_DIR =", glob.glob(sysconfig.get_path("purelib") + "/nvidia/cu13/include"))
print("CUDADRV_LIBNAME = []; LDFLAGS = [\"-l:libcuda.so.1\"]; CUDA_ENABLE_CURAND = False")' >"$home/.aksetup-defaults.py"
  pip install nvidia-cuda-profiler-api==13.5.25 && extra gpu | HOME=$home pip install -r /dev/stdin || status=$?
  rm -rf "$home"
  [ $status = 0 ] || echo "launch.sh: pycuda did not install (it needs g++); the emulator will run the kernels" >&2
}

python=${PYTHON:-python3}
command -v "$python" >/dev/null || die "no $python found: install Python 3.11 or newer, or set PYTHON to it"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || die "$("$python" --version) is too old: Python 3.11 or newer is needed (set PYTHON)"

wanted=$(cat requirements.txt pyproject.toml | sha256sum | cut -d' ' -f1)
if [ "$(cat .venv/requirements.sha256 2>/dev/null)" != "$wanted" ]; then
  echo "launch.sh: setting up .venv (about a minute, 1.5 GB)" >&2
  "$python" -m venv .venv || die "could not make .venv: on Debian and Ubuntu install python3-venv"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements.txt ||
    die "pip could not install requirements.txt: see the lines above, then run the same command again"
  if nvidia-smi -L >/dev/null 2>&1; then
    install_for_gpu
  fi
  echo "$wanted" >.venv/requirements.sha256
fi

# The kernels run in worker processes of their own; one BLAS thread each keeps them off the trainer's cores.
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 TF_CPP_MIN_LOG_LEVEL=2

case ${1:-} in
  test) exec .venv/bin/python -m pytest --numprocesses=auto --maxprocesses=4 --dist=loadfile "${@:2}" ;;
  doctor) exec .venv/bin/python -m leap_jax.doctor "${@:2}" ;;
  gpu-test) exec .venv/bin/python -m pytest tests/test_gpu_device.py -p tests.gpu_results -rs "${@:2}" ;;
esac
case " $* " in
  *" --config="*) exec .venv/bin/python -m leap_jax.main "$@" ;;
  *) exec .venv/bin/python -m leap_jax.main --config=experiments/leap.py "$@" ;;
esac
