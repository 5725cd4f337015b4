#!/usr/bin/env bash
# On a machine with an NVIDIA card: every kernel against the reference, then steps beside PyTorch's in the same run, and what
# the card's libraries and plans take. Needs no packages. Nothing stops it: what fails is told, and the table comes last.
#
#   scripts/gpu_step.sh OUT [BINARIES]
#
# BINARIES is a folder with test_cuda, bench_gpu_step and bench_gpu_record, built elsewhere if need be (their libraries in
# BINARIES/lib).
set -uo pipefail
cd "$(dirname "$0")/.."
out=${1:?a folder for the results}
binaries=$(realpath "${2:-build/release}")
mkdir -p "$out"
export LD_LIBRARY_PATH=$binaries/lib:${LD_LIBRARY_PATH:-}
python=${PYTHON:-python3}
find_binary() { find "$binaries" -name "$1" -type f -perm -u+x | head -1; }

# Compiled by all processors first: the card need not wait for it.
tests=$(find_binary test_cuda)
for i in $(seq 0 $(($(nproc) - 1))); do
  GTEST_TOTAL_SHARDS=$(nproc) GTEST_SHARD_INDEX=$i PLIMSOLL_CUDA_PAPER=sm_90a OMP_NUM_THREADS=1 \
    timeout 120 "$tests" >/dev/null 2>&1 &
done
wait
timeout 300 "$tests" --gtest_brief=1 >"$out/test_cuda.log" 2>&1
echo "test_cuda: exit status $?"
grep -E '^card|FAILED|PASSED' "$out/test_cuda.log" | sort -u

record=$(find_binary bench_gpu_record)
timeout 180 "$record" "$out/record.json"

bench=$(find_binary bench_gpu_step)
ours() { timeout 90 "$bench" "$@"; }
theirs() {
  for mode in eager compile; do timeout 200 "$python" bench/gpu/step_torch.py "$@" --mode $mode 2>&1 | tail -1; done
}
{
  ours gpt2 --batch 32 --seq 1024 --profile
  ours gpt2 --batch 32 --seq 1024 --chunks 4
  theirs gpt2
  ours resnet50 --batch 256 --profile
  theirs resnet50
  ours resnet50 --batch 256 --precision tf32
  theirs resnet50 --precision tf32
} >"$out/steps.txt" 2>&1
grep -v '^ ' "$out/steps.txt" | "$python" scripts/gpu_table.py "$out/steps.json"
