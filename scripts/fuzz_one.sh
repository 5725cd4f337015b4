#!/usr/bin/env bash
# Fuzzes one target for some seconds from its seeds: scripts/fuzz_one.sh NAME SECONDS. Crashing inputs stay in build/fuzz.
set -euo pipefail
name=$1 seconds=$2
mkdir -p "build/fuzz/$name"
log=build/fuzz/$name.log
seeds=()
[ -d "fuzz/corpus/$name" ] && seeds=("fuzz/corpus/$name")
# ONNX's conformance cases where they are installed: small models of every op.
cases=/usr/share/libonnx-testdata/data/node
if [ "$name" = onnx_model ] && [ -d "$cases" ]; then
  mkdir -p build/fuzz/onnx_cases
  find "$cases" -name model.onnx -size -8 | while read -r file; do
    case=${file%/model.onnx}
    ln -sf "$file" "build/fuzz/onnx_cases/${case##*/}.onnx"
  done
  seeds+=(build/fuzz/onnx_cases)
fi
if build/asan/fuzz/"fuzz_$name" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 \
  -artifact_prefix="build/fuzz/$name-" "build/fuzz/$name" "${seeds[@]}" >"$log" 2>&1; then
  echo "fuzz $name: $(grep -oE '^Done [0-9]+ runs' "$log" | tail -1) in ${seconds}s"
else
  echo "fuzz $name FAILED:"
  tail -40 "$log"
  exit 1
fi
