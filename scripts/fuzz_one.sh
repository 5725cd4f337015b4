#!/usr/bin/env bash
# Fuzzes one target for some seconds from its seeds: scripts/fuzz_one.sh NAME SECONDS. Crashing inputs stay in build/fuzz.
set -euo pipefail
name=$1 seconds=$2
mkdir -p "build/fuzz/$name"
log=build/fuzz/$name.log
seeds=()
[ -d "fuzz/corpus/$name" ] && seeds=("fuzz/corpus/$name")
if build/asan/fuzz/"fuzz_$name" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 \
  -artifact_prefix="build/fuzz/$name-" "build/fuzz/$name" "${seeds[@]}" >"$log" 2>&1; then
  echo "fuzz $name: $(grep -oE '^Done [0-9]+ runs' "$log" | tail -1) in ${seconds}s"
else
  echo "fuzz $name FAILED:"
  tail -40 "$log"
  exit 1
fi
