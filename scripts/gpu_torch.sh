#!/usr/bin/env bash
# On a machine with an NVIDIA GPU and PyTorch: what is promised about PyTorch, measured, with a table of what holds. About
# ten minutes; needs no packages. Nothing stops it: what fails is told, and the table comes last.
#
#   scripts/gpu_torch.sh OUT [BINARIES] [PART...]
#
# BINARIES is a folder with plimsoll, gpu_check, libplimsoll_preload.so and libplimsoll_simcuda.so, built elsewhere if need
# be (their libraries in BINARIES/lib). TRACES and SCRIPTS name files for the parts that replay traces and measure scripts.
# Parts: peaks async fit exec oom kinds budget commands card; all of them unless said. LIMIT: seconds after which no part
# is begun any more.
set -uo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:?a folder for the results}")
binaries=$(realpath "${2:-build/gpu/bin}")
shift $(($# < 2 ? $# : 2))
parts=${*:-peaks async fit exec oom kinds budget commands card}
mkdir -p "$out"
log=$out/torch.log
: >"$log"
python=${PYTHON:-python3}
start=$SECONDS
export PLIMSOLL_PYTHON_DIR=$PWD/python PLIMSOLL_PRELOAD_DIR=$binaries PYTHONPATH=$PWD/python PYTHONFAULTHANDLER=1
plimsoll=$binaries/plimsoll
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say() { printf '\n== %4d s  %s\n' $((SECONDS - start)) "$*"; }
wanted() {
  [[ " $parts " == *" $1 "* ]] || return 1
  if [ $((SECONDS - start)) -gt "${LIMIT:-900}" ]; then echo "$1: left out, time is up"; return 1; fi
  say "$1"
}

# Steps of workloads: `steps LABEL [VARIABLE=VALUE...] [-- COMMAND...] -- ARGUMENTS`; COMMAND stands before python.
steps() {
  local label=$1 settings=() before=()
  shift
  while [ "$1" != -- ]; do settings+=("$1"); shift; done
  shift
  if [[ " $* " == *" -- "* ]]; then
    while [ "$1" != -- ]; do before+=("$1"); shift; done
    before+=(--)
    shift
  fi
  env "${settings[@]}" timeout "${SECONDS_FOR:-110}" "${before[@]}" "$python" -u bench/gpu/pool_torch.py "$@" --label "$label" \
    >"$work/last.txt" 2>&1
  local status=$?
  cat "$work/last.txt" >>"$log"
  [ $status -eq 0 ] || { echo "$label: exit status $status"; tail -n 12 "$work/last.txt"; }
  return $status
}
fixed=resnet50,vgg16,densenet121,widecnn,vit,gpt,gpt2
varying="resnet50_sizes gpt2_lengths densenet121_sizes varying"
pool=(LD_PRELOAD="$binaries/libplimsoll_preload.so" PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync PYTORCH_ALLOC_CONF=backend:cudaMallocAsync)

# A run under `exec` that dies: `dies NAME OPTIONS... -- COMMAND`. Tells how long after the exception all was said.
dies() {
  local name=$1
  shift
  timeout 100 "$plimsoll" exec "$@" >"$work/$name.txt" 2>&1
  local status=$?
  local end
  end=$(date +%s.%N)
  cat "$work/$name.txt" >>"$out/exec.txt"
  "$python" - "$work/$name.txt" "$name" $status "$end" <<'PY' | tee -a "$log"
import json, re, sys
text = open(sys.argv[1], errors="replace").read()
at = re.findall(r"OOM_AT ([0-9.]+)", text)
print("DIED " + json.dumps({"name": sys.argv[2], "status": int(sys.argv[3]),
                            "seconds": round(float(sys.argv[4]) - float(at[-1]), 2) if at else None,
                            "exception": "torch.OutOfMemoryError" in text,
                            "cause": re.findall(r"(?m)^ *cause:? +(.*)|^plimsoll: (.*)$", text)[:3],
                            "names_leak": "never given back" in text, "line": "history.append" in text or "in step" in text}))
PY
}

fit_line() { # NAME SECONDS ARGUMENTS: prints `FIT {...}` with the name
  local name=$1 limit=$2
  shift 2
  timeout "$limit" "$python" bench/gpu/fit_gpt2.py --steps 12 "$@" 2>"$work/$name.err" | sed "s/^{/FIT {\"name\": \"$name\", /" >"$work/$name.fit"
  [ -s "$work/$name.fit" ] || { echo "$name failed"; tail -n 5 "$work/$name.err"; } >"$work/$name.fit"
}

say "the card"
nvidia-smi --query-gpu=name,driver_version,memory.total,memory.used --format=csv

searches=()
with_fit=no
if wanted fit; then # candidates are searched on the processor while other parts run; their steps are timed alone, later
  with_fit=yes
  for budget in 24 16; do
    fit_line "fit$budget" 300 --budget ${budget}GiB --after "$work/go$budget" & searches+=($!)
  done
fi
if wanted async; then
  timeout 60 "$python" python/tools/record_async.py -o "$out/async.tar" ${TRACES:-tests/data/traces/*.csv.gz}
fi
losses=()
if [ $with_fit = yes ]; then # losses alone, no times
  fit_line checkpointed 300 --budget 36GiB --most 1 --deterministic & losses+=($!)
  fit_line whole_deterministic 100 --deterministic & losses+=($!)
fi
if wanted peaks && [ -n "${SCRIPTS:-}" ]; then
  timeout 170 "$python" python/tools/record_traces.py --plain -j 5 --limit 120 -o "$out/peaks.tar" $SCRIPTS
fi
if [ $with_fit = yes ]; then
  say "steps of fit"
  wait "${losses[@]}"
  fit_line whole 60
  touch "$work/go24"
  wait "${searches[0]}"
  touch "$work/go16"
  wait "${searches[1]}"
  cat "$work"/*.fit | tee -a "$log" | cut -c1-400
fi
if wanted exec; then # in turns, so that a card that grows warm is fair to both
  for round in 1 2; do
    steps "plain$round" -- gpt2_large_batch,resnet50
    steps "exec$round" -- "$plimsoll" exec --budget 130GiB -- gpt2_large_batch,resnet50
  done
fi
if wanted oom; then
  dies capped --budget 12GiB -- "$python" bench/gpu/pool_torch.py gpt2_large_batch --fail
  dies leak --budget 6GiB -- "$python" bench/gpu/pool_torch.py leak --fail
  steps oom_caught "${pool[@]}" PLIMSOLL_BUDGET=40GiB -- varying --steps 60 --oom-at 30
fi
if wanted kinds; then # those of fixed shapes in one process, the others each in its own: nothing of another is left over
  for kinds in "$fixed" $varying; do
    steps native -- "$kinds"
    steps pool "${pool[@]}" -- "$kinds"
  done
fi
if wanted budget; then # between what the pool needs and what PyTorch's cache needs
  budget=$((22476 << 20))
  steps tight_pool "${pool[@]}" PLIMSOLL_BUDGET=$budget -- varying --steps 1000
  steps tight_native -- varying --steps 1000 --cap $budget
fi
if wanted commands; then # of docs/pytorch.md
  cd examples/torch || exit 1
  dies it_died --budget 12GiB -- "$python" train.py
  timeout 100 "$plimsoll" exec --budget 12GiB -- "$python" fitted.py 2>&1 | tee -a "$out/exec.txt" | tail -n 15
  cd ../.. || exit 1
fi
if wanted card; then
  timeout 60 "$binaries/gpu_check" --json "$out/gpu_check.json" --touch ${TRACES:-tests/data/traces/*.csv.gz} 2>&1 |
    tee "$out/gpu_check.txt"
  cudart=$("$python" -c 'import sys; sys.path.insert(0, "python/tools"); import record_async; print(record_async.find_runtime())')
  echo "cached, the CUDA runtime's own ($cudart), then the preload library's:"
  "$binaries/gpu_check" --runtime "$cudart"
  LD_PRELOAD=$binaries/libplimsoll_preload.so "$binaries/gpu_check" --runtime "$cudart"
  steps checks "${pool[@]}" -- checks
fi
say "results"
"$python" bench/gpu/compare_pool.py "$log" --json "$out/torch.json" | tee "$out/torch.txt"
say "done"
