#!/usr/bin/env bash
# On a machine with an NVIDIA GPU and PyTorch: what the driver's virtual memory costs, recorded traces replayed in real
# memory, and PyTorch under our pool beside PyTorch alone. About six minutes; needs no packages.
#
#   scripts/gpu_pool.sh OUT [BINARIES]
#
# BINARIES is a folder with gpu_check and libplimsoll_preload.so, built elsewhere if need be.
set -uo pipefail
cd "$(dirname "$0")/.."
out=${1:?a folder for the results}
binaries=${2:-build/release/preload}
mkdir -p "$out"
log=$out/torch.log
: >"$log"
python=${PYTHON:-python3}
preload=$(realpath "$binaries")/libplimsoll_preload.so
start=$SECONDS
say() { printf '\n== %4d s  %s\n' $((SECONDS - start)) "$*"; }

# The steps of one workload: `torch_run LABEL [VARIABLE=VALUE...] -- ARGUMENTS`.
torch_run() {
  local label=$1 settings=()
  shift
  while [ "$1" != -- ]; do settings+=("$1"); shift; done
  shift
  if [ $((SECONDS - start)) -gt "${LIMIT:-420}" ]; then echo "$label: left out, time is up"; return; fi
  env PYTHONFAULTHANDLER=1 "${settings[@]}" timeout 100 "$python" -u bench/gpu/pool_torch.py "$@" --label "$label" >"$out/last.txt" 2>&1
  local status=$?
  cat "$out/last.txt" >>"$log"
  [ $status -eq 0 ] || { echo "$label: exit status $status"; tail -n 12 "$out/last.txt"; }
  grep -h '^plimsoll:' "$out/last.txt" | sort | uniq -c | head -5
}
pool=(LD_PRELOAD="$preload" PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync PYTORCH_ALLOC_CONF=backend:cudaMallocAsync)
async=(PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync PYTORCH_ALLOC_CONF=backend:cudaMallocAsync)
hook=(PYTHONPATH="$PWD/python/plimsoll/exec_site" PLIMSOLL_EXEC_DIR="$out/exec" PLIMSOLL_EVENTS=100000)
mkdir -p "$out/exec"

used=$(nvidia-smi --query-gpu=pci.bus_id,memory.used --format=csv,noheader,nounits |
  awk -F', ' '{printf("%s%s=%d", (NR > 1 ? "," : ""), $1, $2 * 1048576)}')

say "the card"
nvidia-smi --query-gpu=name,driver_version,memory.total,memory.used --format=csv
timeout 100 "$binaries/gpu_check" --json "$out/gpu_check.json" --touch tests/data/traces/*.csv.gz 2>&1 |
  tee "$out/gpu_check.txt"

cudart=$("$python" -c 'import glob, os, torch; print(next(iter(glob.glob(os.path.join(os.path.dirname(torch.__file__), "..", "nvidia", "**", "libcudart.so.1?"), recursive=True)), "libcudart.so"))')
echo "cached, the CUDA runtime's own ($cudart), then the preload library's:"
"$binaries/gpu_check" --runtime "$cudart"
LD_PRELOAD=$preload "$binaries/gpu_check" --runtime "$cudart"

say "checks under the pool"
torch_run checks/pool "${pool[@]}" -- checks
say "ResNet-50"
torch_run resnet50/native -- resnet50 --steps 45
torch_run resnet50/async "${async[@]}" -- resnet50 --steps 45
torch_run resnet50/pool "${pool[@]}" -- resnet50 --steps 45
torch_run resnet50/hook "${hook[@]}" -- resnet50 --steps 45
say "lengths that vary, ${STEPS:=1000} steps"
torch_run varying/native -- varying --steps "$STEPS"
torch_run varying/pool "${pool[@]}" PLIMSOLL_EXEC_DIR="$out/exec" PLIMSOLL_EVENTS=300000 -- varying --steps "$STEPS"
say "out of memory is caught"
torch_run varying/pool-oom "${pool[@]}" PLIMSOLL_BUDGET=40GiB PLIMSOLL_DEVICE_USED="$used" PLIMSOLL_EXEC_DIR="$out/exec" -- varying --steps 60 --oom-at 30
say "a budget between what the pool needs and what PyTorch's cache needs"
peak=$("$python" - "$log" <<'PY'
import json, sys
peak = 0
for line in open(sys.argv[1], errors="replace"):
    if line.startswith("RESULT ") and '"varying/pool"' in line:
        peak = json.loads(line[7:])["peak_reserved"]
print(int(peak * 1.005) // (2 << 20) * (2 << 20))
PY
)
echo "budget: $peak bytes"
torch_run varying/pool-tight "${pool[@]}" PLIMSOLL_BUDGET="$peak" PLIMSOLL_EXEC_DIR="$out/exec" -- varying --steps "$STEPS"
torch_run varying/native-tight -- varying --steps "$STEPS" --cap "$peak"
say "a step of fixed length, and the hook's cost on it"
torch_run gpt/native -- gpt --steps 60
torch_run gpt/hook "${hook[@]}" -- gpt --steps 60
torch_run gpt/pool "${pool[@]}" -- gpt --steps 60
if [ -x "$binaries/plimsoll" ]; then
  say "plimsoll exec with 8 GiB for a step that needs 12: the cap holds, the end is explained"
  export PLIMSOLL_PYTHON_DIR=$PWD/python PLIMSOLL_PRELOAD_DIR
  PLIMSOLL_PRELOAD_DIR=$(realpath "$binaries")
  "$binaries/plimsoll" exec --budget 8GiB -- "$python" bench/gpu/pool_torch.py gpt --steps 30 --fail --label capped
  echo "exit status $?"
  "$binaries/plimsoll" exec --budget 8GiB --pool -- "$python" bench/gpu/pool_torch.py gpt --steps 30 --fail --label capped-pool
  echo "exit status $?"
  "$binaries/plimsoll" exec --budget 14GiB --json -- "$python" bench/gpu/pool_torch.py gpt --steps 60 --label gpt/exec
  "$binaries/plimsoll" exec --budget 14GiB --pool --json -- "$python" bench/gpu/pool_torch.py gpt --steps 60 --label gpt/exec-pool
fi 2>&1 | tee "$out/exec.txt"
say "results"
"$python" bench/gpu/compare_pool.py "$log" --json "$out/torch.json" | tee "$out/torch.txt"
ls -la "$out/exec"
tar -C "$out" -czf "$out/exec.tar.gz" exec && rm -r "$out/exec" "$out/last.txt"
say "done"
