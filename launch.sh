#!/usr/bin/env bash
# Set up .venv from requirements.txt (again only when that file changes), then train, or run the tests.
#   ./launch.sh [--workdir=runs/a] [--config=experiments/grpo.py] [--config.seed=1] ...
#   ./launch.sh test [pytest arguments]
set -euo pipefail
cd "$(dirname "$0")"

die() { echo "launch.sh: $*" >&2; exit 1; }

python=${PYTHON:-python3}
command -v "$python" >/dev/null || die "no $python found: install Python 3.11 or newer, or set PYTHON to it"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || die "$("$python" --version) is too old: Python 3.11 or newer is needed (set PYTHON)"

wanted=$(cat requirements.txt pyproject.toml | sha256sum | cut -d' ' -f1)
if [ "$(cat .venv/requirements.sha256 2>/dev/null)" != "$wanted" ]; then
  echo "launch.sh: setting up .venv (about a minute, 1.5 GB)" >&2
  "$python" -m venv .venv || die "could not make .venv: on Debian and Ubuntu install python3-venv"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements.txt ||
    die "pip could not install requirements.txt: see the lines above, then run the same command again"
  if command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; then
    .venv/bin/python -m pip install --quiet --disable-pip-version-check "$(sed -n 's/^gpu = \["\(.*\)"\]$/\1/p' pyproject.toml)" ||
      echo "launch.sh: a GPU is here but pycuda did not install; the emulator will run the kernels" >&2
  fi
  echo "$wanted" >.venv/requirements.sha256
fi

# The kernels run in worker processes of their own; one BLAS thread each keeps them off the trainer's cores.
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 TF_CPP_MIN_LOG_LEVEL=2

if [ "${1:-}" = test ]; then
  shift
  exec .venv/bin/python -m pytest "$@"
fi
case " $* " in
  *" --config="*) exec .venv/bin/python -m leap_jax.main "$@" ;;
  *) exec .venv/bin/python -m leap_jax.main --config=experiments/leap.py "$@" ;;
esac
