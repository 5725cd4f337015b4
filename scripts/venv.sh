#!/usr/bin/env bash
# Prints the path of a Python that has PyTorch: that of a venv under build/ with the newest PyTorch that pip can install,
# made on the first call; without pip or a network the system's, if it has one (Debian's python3-torch). Exits 1 where
# neither has. PLIMSOLL_VENV names a venv to use instead of build/venv.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$(realpath -sm "${PLIMSOLL_VENV:-build/venv}")

has_torch() { [ -x "$1" ] && "$1" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("torch") is None)'; }

make_venv() {
  echo "installing PyTorch in $venv (gigabytes to load, once)" >&2
  python3 -m venv "$venv" >&2 && "$venv/bin/pip" install --quiet torch torchvision numpy >&2
  "$venv/bin/pip" install --quiet onnx onnxruntime >&2 || echo "no ONNX Runtime: bench onnx has no peer" >&2
}

has_torch "$venv/bin/python3" || [ -n "${PLIMSOLL_VENV:-}" ] || make_venv || true
for python in "$venv/bin/python3" /usr/bin/python3; do
  if has_torch "$python"; then
    echo "$python"
    exit
  fi
done
echo "no PyTorch: pip could not install it in $venv, and the system has no python3-torch" >&2
exit 1
