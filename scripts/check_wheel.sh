#!/usr/bin/env bash
# Builds the wheel, installs it in the venv that has PyTorch, and estimates scripts without a card: their peaks must be
# those that were measured on an H200.
#   scripts/check_wheel.sh [SCRIPT NAMES]
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PLIMSOLL_PYTHON:-$(scripts/venv.sh)}
[ $# -gt 0 ] || set -- mlp_adam nn_transformer recommender diffusion_unet
rm -rf build/wheel
"$python" -m pip wheel --quiet --no-deps --wheel-dir build/wheel .
"$python" -m pip install --quiet --no-deps --force-reinstall build/wheel/plimsoll-*.whl
# Measured with PyTorch 2.11: other versions keep other cuBLAS workspaces, two of 32 MiB here.
"$python" bench/torch_peaks.py --worst 0.04 0.06 "$(dirname "$python")/plimsoll" "$python" tests/python/scripts "$@"
