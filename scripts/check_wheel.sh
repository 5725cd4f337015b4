#!/usr/bin/env bash
# Builds the wheel, installs it in the venv that has PyTorch, tests fit, and estimates scripts without a card: their
# peaks must be those that were measured on an H200. Needs PyTorch's CUDA build: gigabytes to load, and a build of the
# whole project, so it is no part of the tests that run on every change.
#   scripts/check_wheel.sh [SCRIPT NAMES]
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PLIMSOLL_PYTHON:-$(scripts/venv.sh)}
[ $# -gt 0 ] || set -- mlp_adam nn_transformer recommender diffusion_unet lstm_lm gru_classifier
rm -rf build/wheel
"$python" -m pip wheel --quiet --no-deps --wheel-dir build/wheel .
"$python" -m pip install --quiet --no-deps --force-reinstall build/wheel/plimsoll-*.whl
"$python" tests/python/fit_test.py
"$(dirname "$python")/plimsoll" estimate --json -- "$python" tests/python/fit_card.py >/dev/null
# Measured with PyTorch 2.11: other versions keep other cuBLAS workspaces, two of 32 MiB here.
"$python" bench/torch_peaks.py --worst 0.05 0.06 "$(dirname "$python")/plimsoll" "$python" tests/python/scripts "$@"
