#!/usr/bin/env bash
# Everything that must pass. Stages run to the end even when one fails, so that one run tells all; the last line counts
# what passed and what failed, tests of each build by themselves.
set -uo pipefail
cd "$(dirname "$0")/.."
passed=0 failed=0 failures=()

# stage NAME COMMAND...: one thing that passes or fails.
stage() {
  local name=$1 start=$SECONDS
  shift
  printf '\n== %s\n' "$name"
  if "$@"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1)) failures+=("$name")
  fi
  printf '== %s: %d s\n' "$name" $((SECONDS - start))
}

# tests PRESET [TARGET...]: builds it, runs its tests (all, or those of the targets), and counts each. test_run_tsan is the
# test run_tsan of the target test_run.
tests() {
  local preset=$1 log=build/$1.tests.log start=$SECONDS only=()
  shift
  printf '\n== build %s\n' "$preset"
  if ! { cmake --preset "$preset" --log-level=WARNING -DPLIMSOLL_UNITY="${PLIMSOLL_UNITY:-ON}" >/dev/null &&
    cmake --build --preset "$preset" ${*:+--target "${@%_tsan}"} -- --quiet; }; then
    failed=$((failed + 1)) failures+=("build $preset")
    return
  fi
  printf '== build %s: %d s\n== tests %s\n' "$preset" $((SECONDS - start)) "$preset"
  start=$SECONDS
  [ $# -eq 0 ] || only=(-R "^($(printf '%s|' "${@#test_}" | sed 's/|$//'))\$")
  ctest --preset "$preset" -j "$(nproc)" "${only[@]}" 2>&1 | tee "$log" || true
  local total bad
  total=$(grep -oE 'out of [0-9]+' "$log" | grep -oE '[0-9]+' | tail -1)
  bad=$(grep -oE '[0-9]+ tests failed out of' "$log" | grep -oE '^[0-9]+' | tail -1)
  if [ -z "${total:-}" ] || [ -z "${bad:-}" ]; then total=1 bad=1; fi
  passed=$((passed + total - bad)) failed=$((failed + bad))
  [ "$bad" -eq 0 ] || failures+=("tests $preset")
  printf '== tests %s: %d s\n' "$preset" $((SECONDS - start))
}

check_format() {
  local tool
  tool=$(scripts/llvm14.sh clang-format) || { echo "format is not checked" && return; }
  git ls-files -co --exclude-standard '*.h' '*.cc' | xargs "$tool" --dry-run --Werror
}
run_fuzz() {
  ls fuzz/*.cc | xargs -n1 basename | sed 's/\.cc$//' | xargs -P "$(nproc)" -I{} scripts/fuzz_one.sh {} "${FUZZ_SECONDS:-12}"
}

mkdir -p build
stage format check_format
stage layers scripts/check_layers.py
stage "paths in docs" scripts/check_paths.py
stage "words in docs" scripts/check_words.py
tests release
stage "README commands" scripts/check_readme.py build/release/cli/plimsoll
stage "words in help" scripts/check_words.py build/release/cli/plimsoll
stage "install and find_package" scripts/check_install.sh
tests asan
stage tidy scripts/tidy.sh
stage fuzz run_fuzz
# Kernels and executors under it take many minutes more: only where asked for. What oneDNN's own threads do is not
# instrumented.
tests tsan test_base test_trace test_memory test_device ${PLIMSOLL_LONG_TESTS:+test_run_tsan test_kernels_tsan}
stage wheel scripts/check_wheel.sh

echo
for name in ${failures[@]+"${failures[@]}"}; do echo "FAILED: $name"; done
printf 'all of it: %d s\n' "$SECONDS"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
