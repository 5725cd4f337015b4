#!/usr/bin/env bash
# On a machine with an NVIDIA card and PyTorch, everything about cards in one command: versions, ceilings, kernels against
# the reference, memory, sanitizer, steps and budgets beside PyTorch's, the pool under PyTorch. Needs no packages. Nothing
# stops it: what fails is told, and one table comes last, with OUT/gpu.json beside it.
#
#   scripts/gpu.sh OUT [BINARIES]
#
# BINARIES is a folder with test_cuda, bench_gpu_step, bench_gpu_record, plimsoll, gpu_check and libplimsoll_preload.so,
# built elsewhere if need be (their libraries in BINARIES/lib). PARTS says what of it: "ceilings tests record steps
# budgets sanitizer pool" (all); MODES which of PyTorch's: "eager compile".
set -uo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:?a folder for the results}")
binaries=$(realpath "${2:-build/release}")
parts=" ${PARTS:-ceilings tests record steps budgets sanitizer pool} "
mkdir -p "$out"
python=${PYTHON:-python3}
start=$SECONDS
say() { printf '\n== %4d s  %s\n' $((SECONDS - start)) "$*"; }
wants() { [[ $parts == *" $1 "* ]]; }
find_binary() { find "$binaries" -name "$1" -type f -perm -u+x 2>/dev/null | head -1; }
ours() { LD_LIBRARY_PATH=$binaries/lib:${LD_LIBRARY_PATH:-} OMP_NUM_THREADS=4 "$@"; }
tests=$(find_binary test_cuda)
bench=$(find_binary bench_gpu_step)
: >"$out/steps.txt"

say "the card"
nvidia-smi --query-gpu=name,driver_version,memory.total,memory.used --format=csv
"$python" -c 'import torch; print("PyTorch", torch.__version__, "CUDA", torch.version.cuda, "cuDNN", torch.backends.cudnn.version())'

if wants ceilings; then
  say "ceilings"
  timeout 60 "$python" bench/gpu/ceilings_torch.py "$out/ceilings.json"
  check=$(find_binary gpu_check)
  [ -n "$check" ] && ours timeout 60 "$check" --json "$out/gpu_check.json" | tail -20
fi

# Compiled by all processors first: the card need not wait for it.
if wants tests || wants sanitizer; then
  say "kernels are compiled"
  for i in $(seq 0 $(($(nproc) - 1))); do
    GTEST_TOTAL_SHARDS=$(nproc) GTEST_SHARD_INDEX=$i PLIMSOLL_CUDA_PAPER=sm_90a OMP_NUM_THREADS=1 \
      LD_LIBRARY_PATH=$binaries/lib:${LD_LIBRARY_PATH:-} timeout 120 "$tests" >/dev/null 2>&1 &
  done
  wait
fi
if wants tests; then
  say "every kernel against the reference, the zoo against the CPU, budgets"
  ours timeout 300 "$tests" --gtest_brief=1 >"$out/test_cuda.log" 2>&1
  echo "test_cuda: exit status $?"
  grep -E '^card|FAILED|PASSED' "$out/test_cuda.log" | sort -u
  grep -E -A8 'Failure' "$out/test_cuda.log" | head -60
  say "NCCL's collectives in a captured graph, one rank"
  ours timeout 120 "$tests" --gtest_filter='NcclOnACard.*' >"$out/nccl.log" 2>&1
  echo "NcclOnACard: exit status $?"
  grep -E '^NCCL|SKIPPED|FAILED|PASSED|not found' "$out/nccl.log" | sort -u
fi
if wants record; then
  say "what the card's libraries and plans take"
  ours timeout 180 "$(find_binary bench_gpu_record)" "$out/record.json"
fi
step() { ours timeout "${LIMIT:-90}" "$bench" "$@" 2>&1 | tee -a "$out/steps.txt" | grep -v '^    '; }
theirs() {
  for mode in ${MODES:-eager compile}; do
    timeout 200 "$python" bench/gpu/step_torch.py "$@" --mode "$mode" 2>&1 | tail -1 | tee -a "$out/steps.txt"
  done
}
gpt2=(gpt2 --batch 32 --seq 1024)
if wants steps; then
  say "GPT-2, 50304 tokens, without dropout"
  theirs gpt2 --tokens 50304
  step "${gpt2[@]}" --tokens 50304 --no-dropout --budget 13.6GiB
  say "GPT-2, 50257 tokens"
  theirs gpt2
  step "${gpt2[@]}" --budget 13.6GiB --profile
  say "ResNet-50"
  theirs resnet50
  step resnet50 --batch 256 --budget 6.9GiB --profile
  theirs resnet50 --precision tf32
  step resnet50 --batch 256 --precision tf32 --budget 13.3GiB --profile
  step p13 --batch 32 --precision tf32
fi
if wants budgets; then
  say "budgets at shares of what is taken unplanned: predicted beside measured"
  step "${gpt2[@]}" --rounds 5 --budget 75% --budget 50% --budget 33% --budget 25%
  step resnet50 --batch 256 --rounds 5 --budget 75% --budget 50% --budget 33% --budget 25%
fi
if wants sanitizer; then
  say "compute-sanitizer on a subset"
  sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
  if [ -n "$sanitizer" ]; then
    ours timeout 120 "$sanitizer" --tool memcheck --error-exitcode 9 "$tests" \
      --gtest_filter='NormRelu.*:FactoredKernels.*:CudaAttention.*' >"$out/sanitizer.log" 2>&1
    echo "compute-sanitizer: exit status $?"
    grep -E 'ERROR SUMMARY|FAILED|PASSED|Invalid' "$out/sanitizer.log" | sort -u | head
  else
    echo "there is no compute-sanitizer here"
  fi
fi
if wants pool; then
  say "the pool under PyTorch"
  SCRIPTS=${SCRIPTS:-$(ls tests/python/scripts/*.py)} scripts/gpu_torch.sh "$out" "$binaries"
fi
say "all of it"
"$python" scripts/gpu_table.py "$out"
