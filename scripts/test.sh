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

# build PRESET [TARGET...]: all of it, or the targets. Fails as a stage does.
build() {
  local preset=$1 start=$SECONDS
  shift
  printf '\n== build %s\n' "$preset"
  if ! { cmake --preset "$preset" --log-level=WARNING -DPLIMSOLL_UNITY="${PLIMSOLL_UNITY:-ON}" >/dev/null &&
    cmake --build --preset "$preset" ${*:+--target "$@"} -- --quiet; }; then
    failed=$((failed + 1)) failures+=("build $preset")
    return 1
  fi
  printf '== build %s: %d s\n' "$preset" $((SECONDS - start))
}

# tests PRESET [TARGET...]: runs the tests of what was built (all, or those of the targets), and counts each.
tests() {
  local preset=$1 log=build/$1.tests.log start=$SECONDS only=()
  shift
  printf '\n== tests %s\n' "$preset"
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

# beside COMMAND: stages that keep one core busy or wait for the network, while others go on. What they print and count
# comes with `joined`.
beside() {
  (
    passed=0 failed=0 failures=()
    "$@"
    printf '%s\n' "$passed" "$failed" ${failures[@]+"${failures[@]}"} >build/beside.counts
  ) >build/beside.log 2>&1 &
  beside=$!
  trap 'kill "$beside" 2>/dev/null' EXIT
}
joined() {
  local counts
  wait "$beside"
  trap - EXIT
  cat build/beside.log
  mapfile -t counts <build/beside.counts
  passed=$((passed + counts[0])) failed=$((failed + counts[1])) failures+=("${counts[@]:2}")
}

check_format() {
  local tool
  tool=$(scripts/llvm14.sh clang-format) || { echo "format is not checked" && return; }
  git ls-files -co --exclude-standard '*.h' '*.cc' | xargs "$tool" --dry-run --Werror
}
run_fuzz() {
  ls fuzz/*.cc | xargs -n1 basename | sed 's/\.cc$//' | xargs -P "$(nproc)" -I{} scripts/fuzz_one.sh {} "${FUZZ_SECONDS:-12}"
}

as_installed() {
  stage "README commands" scripts/check_readme.py build/release/cli/plimsoll
  stage "words in help" scripts/check_words.py build/release/cli/plimsoll
  stage "install and find_package" scripts/check_install.sh
  stage wheel scripts/check_wheel.sh
}

mkdir -p build
stage format check_format
stage layers scripts/check_layers.py
stage "paths in docs" scripts/check_paths.py
stage "words in docs" scripts/check_words.py
build release && tests release
beside as_installed
build asan
asan=$?
joined
[ $asan -eq 0 ] && tests asan
stage tidy scripts/tidy.sh
stage fuzz run_fuzz
# Kernels, executors and training under it take many minutes more: only where asked for. What oneDNN's own threads do is
# not instrumented.
build tsan test_base test_trace test_memory test_device ${PLIMSOLL_LONG_TESTS:+test_run test_kernels test_train} &&
  tests tsan test_base test_trace test_memory test_device \
    ${PLIMSOLL_LONG_TESTS:+test_run_tsan test_kernels_tsan test_train_tsan}

echo
for name in ${failures[@]+"${failures[@]}"}; do echo "FAILED: $name"; done
printf 'all of it: %d s\n' "$SECONDS"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
