#!/usr/bin/env bash
# The wheel in a venv of its own: what needs no PyTorch, then scripts estimated with the newest PyTorch of pip, without a
# card. Their peaks must be the golden ones of that version, or near those that were measured on an H200.
#   scripts/check_wheel.sh                     binaries of build/release; PyTorch without CUDA's libraries (1.1 GB, once)
#   scripts/check_wheel.sh --build [NAMES]     builds everything as `pip install .` does; all of PyTorch (gigabytes, once)
# PLIMSOLL_VENV names a folder for the venv, which is kept; without a network the part with PyTorch is left out.
set -euo pipefail
cd "$(dirname "$0")/.."
from=(--config-settings=cmake.define.PLIMSOLL_PREBUILT="$PWD/build/release")
make_venv=(scripts/lean_torch.py "${PLIMSOLL_VENV:-build/venv-lean}")
if [ "${1:-}" = --build ]; then
  shift
  from=() make_venv=(scripts/venv.sh)
fi
[ $# -gt 0 ] || set -- mlp_adam nn_transformer recommender diffusion_unet lstm_lm gru_classifier lstm_packed
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

python3 -m venv "$scratch/plain"
plain=$scratch/plain/bin
if ! "$plain/pip" download --quiet --retries 1 --timeout 10 --disable-pip-version-check --no-deps --dest "$scratch" scikit-build-core; then
  echo "no network: the wheel is not checked" >&2
  exit 0
fi
"$plain/pip" wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$scratch" "${from[@]}" .
wheel=$(ls "$scratch"/plimsoll-*.whl)
"$plain/pip" install --quiet --disable-pip-version-check --no-deps "$wheel"
(
  cd "$scratch"  # so that nothing is found in the source tree
  "$plain/plimsoll" --version
  "$plain/plimsoll" estimate resnet50 --batch 8 >/dev/null
  "$plain/plimsoll" exec --pool -- "$plain/python" -c 'print("exec: fine")'
  "$plain/python" -c 'import plimsoll; print(plimsoll.__file__)' | grep -q "$scratch"
)

python=$("${make_venv[@]}")
"$python" -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall "$wheel"
binary=$(dirname "$python")/plimsoll
"$binary" estimate --json -- "$python" tests/python/fit_card.py >/dev/null
"$python" bench/torch_peaks.py --golden tests/python/golden.json --worst 0.05 0.06 "$binary" "$python" tests/python/scripts "$@"
